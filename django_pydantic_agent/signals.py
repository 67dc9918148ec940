"""Signals about runs: sent by the process that wrote what they tell, after the commit, from a thread of its own.

Every receiver gets `run_id`, `thread_id`, `owner` (the key of the owner, None without a durable identity), `server`
(the namespace of the mount) and `attempt`, and no content. `sender` is the class `StoredRun`. Receivers may be slow and
may be coroutine functions; what they raise is logged. A process that dies between the commit and the receivers sends
nothing.
"""

from django.dispatch import Signal

run_started = Signal()
"""A run has begun. One that fails or is cancelled before it begins sends only its end."""

run_finished = Signal()
"""A run has come to its end. Adds `status`: `finished`, or `interrupted` where it waits for answers."""

run_failed = Signal()
"""An exception has ended a run. Adds `code`."""

run_cancelled = Signal()
"""A run was stopped."""

run_orphaned = Signal()
"""The process of a run is gone and the run was ended by another one. Adds `code`."""

effect_unresolved = Signal()
"""A run has ended and nobody knows whether one of its tools has acted. Adds `tool_call_id`, `tool` and `reason`.

Sent once for each such call in the ledger of the store app.
"""

approval_requested = Signal()
"""A run has ended with a question. Sent once for each, with `interrupt_id` and `tool_call_id`.

Not sent for what nobody is asked, because the run was replaced in its thread.
"""

approval_decided = Signal()
"""A question was answered or given up. Sent once for each, with `interrupt_id` and `decision`.

`decision` is `approved`, `denied`, `cancelled` or `expired`. The other arguments are those of the run that was accepted
with the answer, or with a new message in place of one; where the question was cancelled by itself, or has expired and
kept another turn waiting, those of the run that has asked. What is deleted sends nothing.
"""

thread_saved = Signal()
"""What a run has said was saved in its thread: at its safe boundaries and at its end."""
