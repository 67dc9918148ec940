"""What a viewer who joins later is shown, beside what one has seen who was there from the beginning."""

import json
from collections.abc import Sequence
from typing import Any

from django_pydantic_agent.log.projection import Projection
from tests.sse import Frame, check_sequence, events_of


def added_up(events: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], Any]:
    """Return the messages and the state that events add up to."""
    projection = Projection((), state={})
    for event in events:
        projection.apply_frame(json.dumps(event).encode())
    return projection.messages, projection.state


def check_attached(found: Sequence[Frame], whole: Sequence[Frame]) -> None:
    """Check that what a viewer was shown stands for the whole log of a run that has ended."""
    with_ids = [frame.seq for frame in found if frame.seq is not None]
    assert with_ids == list(range(with_ids[0], with_ids[-1] + 1))
    attached, first = events_of(found), events_of(whole)
    check_sequence(attached)
    assert (found[-1].id, attached[-1]) == (whole[-1].id, first[-1])
    assert added_up(attached) == added_up(first)
