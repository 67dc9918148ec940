"""A run of many tool steps on a long conversation, and what it does to the server's event loop."""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from urllib.request import urlopen

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import Side, alternate, bare, django

STEPS = 20
MESSAGES = 300
TASK = Task(steps=STEPS)
HISTORY = [
    {"id": f"m{number}", "role": ("user", "assistant")[number % 2], "content": f"Message {number}. " * 20}
    for number in range(MESSAGES)
]


def measure(rounds: int) -> Iterator[Measured]:
    what = f"{STEPS} tool steps on {MESSAGES} messages"
    with bare() as other, django() as server:
        durable, unpersisted = mount(server, "/agent/"), Side(server, "/unpersisted/")
        durable.load(Task(), history=HISTORY, run_id="source")
        resumed = mount(server, "/agent/resume/source/")
        runs = alternate(
            4 * rounds, lambda: duration(resumed), lambda: duration(durable, HISTORY), lambda: duration(other, HISTORY)
        )
        late = alternate(4 * rounds, lambda: lateness(durable), lambda: lateness(unpersisted))
    durations = (median(side) * 1000 for side in zip(*runs, strict=True))
    for how, milliseconds in zip(("that are stored", "that are posted", "posted to bare"), durations, strict=True):
        yield Measured(f"{what} {how}", milliseconds, "ms")
    speed = median(theirs / ours for ours, _, theirs in runs)
    yield Measured(f"{what} that are stored, speed against bare", speed, "", Bound(at_least=0.8))
    speed = median(theirs / ours for _, ours, theirs in runs)
    yield Measured(f"{what} that are posted, speed against bare", speed)
    ours, theirs = (median(side) * 1000 for side in zip(*late, strict=True))
    yield Measured("worst lateness of a 1 ms timer, unpersisted", theirs, "ms")
    yield Measured("worst lateness of a 1 ms timer, above unpersisted", ours - theirs, "ms", Bound(at_most=10))


def duration(side: Side, history: Sequence[Mapping[str, str]] = ()) -> float:
    (stream,) = side.load(TASK, history=history)
    return stream.last - stream.sent


def lateness(side: Side) -> float:
    timer = f"{side.server.url}/lateness/"
    urlopen(timer).close()  # noqa: S310
    side.load(TASK, history=HISTORY)
    with urlopen(timer) as answer:  # noqa: S310
        worst: float = json.load(answer)
    return worst
