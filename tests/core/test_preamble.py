"""Joining a run in the middle: the preamble and what comes behind it add up to what everybody has."""

import json
from typing import Any

import pytest
from ag_ui.core import MessagesSnapshotEvent, StateSnapshotEvent
from hypothesis import given
from hypothesis import strategies as st

from django_ag_ui.api.sse import for_older_viewer
from django_pydantic_agent.log.frames import encode
from django_pydantic_agent.log.preamble import LogFold, Preamble
from tests.core.drawn_streams import streams
from tests.core.folding import drawn, frames_of, projected, seen
from tests.core.streams import EARLIER, STREAMS, Stream, run, text

USER_JSON = {"id": "u1", "role": "user", "content": "go"}

# What these runs do to earlier messages cannot be told to a client that has some of them.
REARRANGING = {
    "a call that is started again",
    *(
        name
        for name, stream in STREAMS.items()
        if any(isinstance(event, MessagesSnapshotEvent) for event in stream.events)
    ),
}


def preamble(stream: Stream, frames: list[bytes], **saved: Any) -> Preamble:
    fold = LogFold(stream.messages, state=stream.state, **saved)
    for frame in frames:
        fold.take(frame)
    return fold.preamble()


def locals_of(stream: Stream, frames: list[bytes], seq: int) -> dict[str, list[dict[str, Any]]]:
    """Return what messages a client that joins at `seq` may have already."""
    everything = projected(stream, frames[:seq]).messages
    return {
        "none": [],
        "the question": [USER_JSON],
        "those before the run": list(stream.messages),
        "those before the run and the question": [*stream.messages, USER_JSON],
        "all but the last": projected(stream, frames[: seq - 1]).messages,
        "all": everything,
    }


@pytest.mark.node
@pytest.mark.parametrize("name", STREAMS)
def test_who_joins_at_any_seq_ends_with_what_everybody_has(client, name):
    stream = STREAMS[name]
    frames = frames_of(stream)
    everybody = seen(projected(stream, frames))
    for seq in range(1, len(frames) + 1):
        told = preamble(stream, frames[:seq])
        assert told.seq == seq
        assert told.frames[0] == frames[0]
        assert client.answers(Stream([]), [*told.frames, *frames[seq:]]) == [everybody], seq


@pytest.mark.node
@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.older or name == "cancel"])
def test_an_older_client_that_joins_at_any_seq_ends_with_what_everybody_has(client, name):
    stream = STREAMS[name]
    frames = frames_of(stream)
    everybody = seen(projected(stream, frames))
    for seq in range(1, len(frames) + 1):
        sent = [for_older_viewer(frame) for frame in [*preamble(stream, frames[:seq]).frames, *frames[seq:]]]
        assert client.answers(Stream([]), sent, version="0.0.59") == [everybody], seq


@pytest.mark.node
@pytest.mark.parametrize("version", ["1.0.0", "0.0.59"])
@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.older and name not in REARRANGING])
def test_what_the_client_has_already_comes_to_stand_where_it_belongs(client, name, version):
    stream = Stream(STREAMS[name].events, messages=[*EARLIER[:3], *STREAMS[name].messages[3:]])
    frames = frames_of(stream)
    everybody = seen(projected(stream, frames))
    for seq in range(1, len(frames) + 1):
        told = preamble(stream, frames[:seq])
        for kind, messages in locals_of(stream, frames, seq).items():
            answers = client.answers(Stream([], messages), [*told.frames, *frames[seq:]], version=version)
            assert answers == [everybody], (seq, kind)


@pytest.mark.node
@drawn
@given(stream=streams(losses=False), data=st.data())
def test_who_joins_any_legal_run_ends_with_what_everybody_has(client, stream, data):
    frames = frames_of(stream)
    seq = data.draw(st.integers(1, len(frames)))
    told = preamble(stream, frames[:seq])
    assert client.answers(Stream([]), [*told.frames, *frames[seq:]]) == [seen(projected(stream, frames))]


@drawn
@given(stream=streams(), data=st.data())
def test_saved_messages_and_state_with_what_is_behind_them_give_the_same(stream, data):
    frames = frames_of(stream)
    seq = data.draw(st.integers(1, len(frames)))
    saved = data.draw(st.integers(1, seq))
    before = projected(stream, frames[:saved])
    from_saved = preamble(Stream([], before.messages, before.state), frames[:seq], applied_seq=saved, state_seq=saved)
    assert from_saved == preamble(stream, frames[:seq])


def test_the_state_and_the_messages_may_have_been_saved_apart():
    stream = STREAMS["state"]
    frames = frames_of(stream)
    messages = projected(stream, frames).messages
    told = preamble(Stream([], messages, stream.state), frames, applied_seq=len(frames), state_seq=0)
    assert told == preamble(stream, frames)


def test_a_run_of_which_only_the_first_event_is_there_is_told_whole():
    stream = Stream(run(end=None), messages=EARLIER, state={"n": 1})
    (started,) = frames_of(stream)
    types = [json.loads(frame) for frame in preamble(stream, [started]).frames]
    assert types == [
        json.loads(started),
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
        {"type": "MESSAGES_SNAPSHOT", "messages": EARLIER},
        {"type": "MESSAGES_SNAPSHOT", "messages": [*EARLIER, USER_JSON]},
    ]


def test_snapshots_are_encoded_as_every_frame_is():
    stream = Stream(run(text("m1", "\u00e9"), StateSnapshotEvent(snapshot={"n": 2**70, "none": None})))
    frames = frames_of(stream)
    told = preamble(stream, frames)
    assert told.frames[1] == encode(StateSnapshotEvent(snapshot={"n": 2**70, "none": None}))
    assert told.frames[2] == encode(MessagesSnapshotEvent(messages=projected(stream, frames).messages))
    assert told.frames[3] == frames[-1]
