"""The conversation that runs outside of any thread make up."""

from collections.abc import Iterable, Iterator
from itertools import islice

from pydantic_core import from_json

from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.log.frames import JsonObject
from django_pydantic_agent.log.preamble import messages_told
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.stores.base import RunStore, StoredRun


def messages_of_lineage(store: RunStore, run: StoredRun) -> list[JsonObject]:
    """Return the messages of a run and of the runs that it continues, as their logs and inputs have them."""
    return _written(store, _lineage(store, run))


def messages_before(store: RunStore, run: StoredRun) -> list[JsonObject]:
    """Return what a run goes on from: the messages of the runs that it continues, and those it was accepted with."""
    return _with_posted(_written(store, islice(_lineage(store, run), 1, None)), store, run)


def _written(store: RunStore, runs: Iterable[StoredRun]) -> list[JsonObject]:
    """Return the messages of runs, the newest of which comes first."""
    messages: list[JsonObject] = []
    unfolded = []
    for run in runs:
        if (told := messages_told(store.folded(run.key).frames)) is not None:
            messages = told
            break
        unfolded.append(run)
    for run in reversed(unfolded):
        messages = _with_written(_with_posted(messages, store, run), store, run)
    return messages


def _with_written(messages: list[JsonObject], store: RunStore, run: StoredRun) -> list[JsonObject]:
    projection = Projection(messages, state=None)
    try:
        for frame in frames_after(store, run.key, after=0):
            projection.apply_frame(frame)
    except LogPruned:
        # What the run wrote in a thread that nobody keeps here any more is not to be had.
        told = messages_told(store.folded(run.key).frames)
        return projection.messages if told is None else told
    return projection.messages


def _with_posted(messages: list[JsonObject], store: RunStore, run: StoredRun) -> list[JsonObject]:
    known = {message["id"] for message in messages}
    posted = from_json(store.input(run.key)).get("messages", ())
    return [*messages, *(message for message in posted if message["id"] not in known)]


def _lineage(store: RunStore, run: StoredRun | None) -> Iterator[StoredRun]:
    seen: set[int] = set()
    while run is not None and run.key not in seen:
        yield run
        seen.add(run.key)
        parent = run.parent_run_id
        run = None if parent is None else store.get(owner=run.owner, scope=run.scope, run_id=parent)
