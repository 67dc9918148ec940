"""The pages of a thread and of a run."""

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.utils.translation import gettext
from rest_framework.request import Request

from django_ag_ui.api.exceptions import RunIdReused
from django_ag_ui.api.ledger import calls_of, event_call_ids, with_ledger
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.runs import find_run
from django_ag_ui.api.starting import AgentView, ContinueView
from django_ag_ui.ui.posting import ComposerView
from django_ag_ui.ui.states import State, unknown_effects
from django_ag_ui.ui.transcript import transcript
from django_pydantic_agent.stores.base import RunQuery, StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject


class ThreadPage(ComposerView, AgentView):
    """A thread with what its running turn has brought so far, and a form for the next turn."""

    def get(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponse:
        from django_pydantic_agent.threads.running import with_running_turn

        conversation, owner = self.place
        thread_id = decode_id(thread)
        stored = with_running_turn(conversation.read(owner=owner, thread_id=thread_id), self.run_store)
        key = conversation.current_run(owner=owner, thread_id=thread_id)
        run = None if key is None else self.run_store.by_key(key, owner=owner)
        if run is not None:
            (run,) = with_ledger(self.step_store, [run])
        runs = self.run_store.page(owner=owner, scope=self.scope, query=RunQuery(thread_id=thread_id)).runs
        return self.page(
            "thread",
            thread=stored,
            thread_id=thread_id,
            thread_url=self.addresses.thread(thread_id),
            name=self.titles([thread_id]).get(thread_id) or thread_id,
            can_compose=True,
            **_conversation(stored.messages, run, self, unknown=_unknown_calls(runs, self)),
        )

    def thread_of(self, nonce: UUID) -> str:
        return decode_id(self.kwargs["thread"])


class RunPage(ComposerView, ContinueView):
    """A run, and a form that goes on from it where it was, or in a new thread."""

    def get(self, request: Request, *, run: str, **kwargs: str) -> HttpResponse:
        from django_pydantic_agent.log.preamble import messages_told

        (stored,) = with_ledger(self.step_store, [find_run(self, run)])
        messages = messages_told(self.preamble(stored).frames) or []
        return self.page(
            "run",
            thread_id=stored.thread_id,
            thread_url=self._thread_url(stored),
            name=stored.preview or stored.run_id,
            can_compose=stored.continuable,
            **_conversation(messages, stored, self, unknown=_unknown_calls([stored], self)),
        )

    def thread_of(self, nonce: UUID) -> str:
        if self.form.get("into") == "new":
            return str(nonce)
        return find_run(self, self.kwargs["run"]).thread_id

    def reused(self) -> HttpResponse:
        raise RunIdReused

    def _thread_url(self, run: StoredRun) -> str | None:
        """Return the page of the run's thread, None where it has none."""
        if self.conversation is None or self.owner is None:
            return None
        if not self.conversation.holds(owner=self.owner, thread_id=run.thread_id, run=run.key):
            return None
        return self.addresses.thread(run.thread_id)


def _conversation(
    messages: "Iterable[JsonObject]", run: StoredRun | None, view: ComposerView, *, unknown: Container[str]
) -> dict[str, Any]:
    """Return what the pages of a thread and of a run show alike."""
    return {
        "entries": transcript(messages, unknown=unknown),
        "run": run,
        "run_url": run and view.addresses.run(run.run_id),
        "fork_url": view.addresses.fork(run.run_id) if run and run.continuable else "",
        "state": run and State.of(run),
        "problem": run and run.error and gettext(run.error["message"]),
        "unknown_effects": run and unknown_effects(run),
        "here": view.request._request.get_full_path(),
        "csrf": get_token(view.request._request),
    }


def _unknown_calls(runs: Iterable[StoredRun], view: ComposerView) -> set[str]:
    """Return the calls of runs of which nobody knows whether they have acted, by their ids in the events."""
    found: set[str] = set()
    for run in runs:
        if unknown_effects(run):
            unresolved = [effect for effect in calls_of(view.step_store, run) if effect.is_unresolved]
            found.update(event_call_ids(view, run, [effect.tool_call_id for effect in unresolved]).values())
    return found
