"""How a run begins: the row and the first frame that are written before anything executes."""

import time
from collections.abc import Sequence

from ag_ui.core import PROTOCOL_VERSION, Message, RunAgentInput, RunStartedEvent

from django_pydantic_agent.log.accept import new_messages
from django_pydantic_agent.log.frames import encode
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.rebuild import kept_request
from django_pydantic_agent.stores.base import NewRun


def new_run(plan: RunPlan) -> NewRun:
    """Return the run of `plan` as it is written at acceptance."""
    run_input, parent = plan.run_input, plan.source
    accepted = list(new_messages(run_input.messages))
    thread = plan.thread
    return NewRun(
        owner=plan.request.owner,
        scope=plan.scope,
        run_id=run_input.run_id,
        thread_id=run_input.thread_id,
        server=plan.config.server,
        input=encode(run_input),
        digest=plan.digest,
        protocol=plan.protocol,
        message_ids=[message.id for message in run_input.messages],
        first_frame=lambda revision: encode(_run_started(plan, accepted, revision)),
        cancel_after=plan.cancel_after,
        parent=parent,
        conversation=thread.conversation if thread else None,
        turn=thread.start if thread else None,
        request=kept_request(plan),
        idempotency=plan.idempotency,
        answers=plan.answers,
        decider=plan.request.owner.key if plan.request.owner else "",
        gives_up=plan.gives_up,
        stops=plan.stops,
        user=plan.request.user,
    )


def revision_metadata(revision: int | None) -> dict[str, dict[str, int]] | None:
    """Return the metadata that tells a client at which revision its thread is."""
    return None if revision is None else {"django_ag_ui": {"revision": revision}}


def _run_started(plan: RunPlan, accepted: Sequence[Message], revision: int | None) -> RunStartedEvent:
    """Return the first event of a run; of what was posted it repeats the accepted messages only."""
    run_input = plan.run_input
    return RunStartedEvent(
        metadata=revision_metadata(revision),
        protocol_version=PROTOCOL_VERSION,
        thread_id=run_input.thread_id,
        run_id=run_input.run_id,
        parent_run_id=plan.source.run_id if plan.source else None,
        timestamp=int(time.time() * 1000),
        input=RunAgentInput(
            thread_id=run_input.thread_id,
            run_id=run_input.run_id,
            messages=list(accepted),
            state={},
            tools=[],
            context=[],
            forwarded_props={},
        ),
    )
