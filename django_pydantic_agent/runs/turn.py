"""A run's part of its thread: what the run begins with, and what it leaves there."""

from collections.abc import Iterator

from ag_ui.core import BaseEvent, Message, MessagesSnapshotEvent, RunAgentInput, StateSnapshotEvent, ToolMessage
from pydantic_ai.messages import ModelMessage

from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.runs.plan import ThreadPlan
from django_pydantic_agent.stores.base import RunHistory, RunStore
from django_pydantic_agent.stores.conversations import TurnGround, TurnSave
from django_pydantic_agent.threads.history import agui_messages, past, unfinished
from django_pydantic_agent.threads.reconcile import overlay_state


class RunTurn:
    """Reads the thread once, when the run starts, and turns what the run does into saves.

    Blocking, but for `save`, which only computes what is to be written. `history` is that of the run.
    """

    def __init__(self, plan: ThreadPlan, store: RunStore, key: int, history: RunHistory) -> None:
        self._plan = plan
        self._store = store
        self._key = key
        self._history = history

    def begin(self, run_input: RunAgentInput) -> tuple[RunAgentInput, list[ModelMessage], int | None]:
        """Return the input with the thread's state and the question, and the model's history before it.

        And the key of the run that this history ends with, None where there is none.
        """
        ground = self._plan.conversation.ground(run=self._key)
        run_input = self._with_state(run_input, ground)
        results = [message for message in run_input.messages if isinstance(message, ToolMessage)]
        goes_on = self._plan.goes_on
        if goes_on is not None and self._store.boundary_seq(goes_on):
            return run_input.model_copy(update={"messages": []}), unfinished(self._history, goes_on, results), goes_on
        if goes_on is not None or self._plan.regenerates:
            run_input = run_input.model_copy(update={"messages": agui_messages(ground.question)})
        elif results:
            asked = [message for message in run_input.messages if not isinstance(message, ToolMessage)]
            run_input = run_input.model_copy(update={"messages": asked})
        history = past(self._history, self._store, self._plan.conversation, ground, results)
        return run_input, history, ground.previous

    def with_state(self, run_input: RunAgentInput) -> RunAgentInput:
        """Return the input with the thread's state."""
        return self._with_state(run_input, self._plan.conversation.ground(run=self._key))

    def _with_state(self, run_input: RunAgentInput, ground: TurnGround) -> RunAgentInput:
        state = overlay_state(ground.state, run_input.state, knows_newest=self._plan.knows_newest)
        return run_input.model_copy(update={"state": state})

    def catch_up(self, state: object) -> Iterator[BaseEvent]:
        """Yield what a client has to hear that does not know the whole thread.

        The messages come twice, because a client leaves what it has added itself in front of what it did not know:
        first without the ones that this run has brought, then with them.
        """
        if not self._plan.catches_up:
            return
        brought = {message["id"] for message in self._plan.start.messages}
        messages = self.transcript()
        before = [message for message in messages if message.id not in brought]
        if len(before) < len(messages):
            yield MessagesSnapshotEvent(messages=before)
        yield MessagesSnapshotEvent(messages=messages)
        yield StateSnapshotEvent(snapshot={} if state is None else state)

    @property
    def opens_thread(self) -> bool:
        """Whether there was no thread before this run."""
        return self._plan.start.revision is None

    def transcript(self) -> list[Message]:
        """Return the messages of the thread up to those of this run."""
        return agui_messages(self._plan.conversation.transcript(run=self._key))

    def entitle(self, title: str) -> None:
        """Give the thread a title, unless a person has."""
        start = self._plan.start
        self._plan.conversation.entitle(owner=start.owner, thread_id=start.thread_id, title=title)

    def save(self, projection: Projection, seq: int) -> TurnSave:
        """Return what has become of the run's messages and state since the last save."""
        return turn_save(self._key, projection, seq)


def turn_save(run: int, projection: Projection, seq: int) -> TurnSave:
    """Return what has become of a run's messages and state since the last save, as of seq `seq`."""
    changes = projection.take_changes()
    return TurnSave(
        run=run,
        through_seq=seq,
        messages=changes.messages,
        state=projection.state if changes.state else None,
        has_state=changes.state,
        size=changes.size,
    )
