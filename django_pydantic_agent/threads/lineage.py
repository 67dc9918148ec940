"""The conversation that runs outside of any thread make up."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ag_ui.core import RunAgentInput

from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.stores.base import RunStore, StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject


def messages_of_lineage(store: RunStore, run: StoredRun) -> "list[JsonObject]":
    """Return the messages of a run and of the runs that it continues, as their logs and inputs have them."""
    messages: list[JsonObject] = []
    for ancestor in reversed(list(_lineage(store, run))):
        known = {message["id"] for message in messages}
        posted = wire_form(RunAgentInput.model_validate_json(store.input(ancestor.key)))["messages"]
        projection = Projection([*messages, *(message for message in posted if message["id"] not in known)], state=None)
        for frame in frames_after(store, ancestor.key, after=0):
            projection.apply_frame(frame)
        messages = projection.messages
    return messages


def _lineage(store: RunStore, run: StoredRun | None) -> Iterator[StoredRun]:
    seen: set[int] = set()
    while run is not None and run.key not in seen:
        yield run
        seen.add(run.key)
        parent = run.parent_run_id
        run = None if parent is None else store.get(owner=run.owner, scope=run.scope, run_id=parent)
