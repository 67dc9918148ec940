"""What a post answers to what a run has asked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_ag_ui.api.exceptions import ThreadRefusal
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.plan import AgentConfig
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.threads.reconcile import Attach, Refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import RunAgentInput

    from django_pydantic_agent.stores.approvals import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The run that a post answers, and all that it has asked, answered."""

    run: StoredRun
    answers: "Sequence[Answer]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPost:
    """A post of `owner` with answers to interrupts; with a `source`, to those of that run only."""

    posted: "RunAgentInput"
    owner: Owner | None
    scope: str
    store: RunStore
    config: AgentConfig
    source: StoredRun | None = None

    def read(self) -> Answered | Attach:
        """Return the answers, or the run that was started by equal ones; raises the refusal that goes to the client."""
        from django_pydantic_agent.policy.approvals import UNKNOWN_INTERRUPT, read_answers

        entries = self.posted.resume or []
        run = self.store.asked_by(
            entries[0].interrupt_id,
            owner=self.owner,
            scope=self.scope,
            server=self.config.server,
            thread_id=self.posted.thread_id,
        )
        if run is None or (self.source is not None and self.source.key != run.key):
            raise refusal(UNKNOWN_INTERRUPT)
        decision = read_answers(
            entries,
            self.store.interrupts(run.key),
            calls=run.pending_calls,
            results={message.tool_call_id for message in self.posted.messages if message.role == "tool"},
            takes=self._takes,
        )
        if isinstance(decision, Refuse):
            raise refusal(decision)
        return decision if isinstance(decision, Attach) else Answered(run=run, answers=decision)

    def _takes(self, tool: str, arguments: dict[str, Any]) -> bool:
        from django_pydantic_agent.agents.build import takes_arguments

        return takes_arguments(tool, arguments, self.config.source, toolsets=self.config.toolsets)


def refusal(refuse: Refuse) -> ThreadRefusal:
    """Return the error that answers a post which is refused."""
    return ThreadRefusal(refuse.status, refuse.code, refuse.message, refuse.missing)
