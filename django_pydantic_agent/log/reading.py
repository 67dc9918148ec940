"""Reading what a store holds of a run's log."""

from collections.abc import Iterator

from django_pydantic_agent.stores.base import RunStore

READ_BYTES = 1024 * 1024


def frames_after(store: RunStore, run: int, *, after: int) -> Iterator[bytes]:
    """Yield the committed frames of a run behind seq `after`."""
    while frames := store.read_frames(run, after=after, max_bytes=READ_BYTES):
        yield from frames
        after += len(frames)
