"""A run of many tool steps on a long conversation, and what it does to the server's event loop."""

import json
from collections.abc import Iterator
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
        runs = alternate(4 * rounds, lambda: duration(durable), lambda: duration(other))
        late = alternate(4 * rounds, lambda: lateness(durable), lambda: lateness(unpersisted))
    yield Measured(what, median(ours for ours, _ in runs) * 1000, "ms")
    yield Measured(f"{what}, bare", median(theirs for _, theirs in runs) * 1000, "ms")
    yield Measured(f"{what}, speed against bare", median(b / a for a, b in runs), "", Bound(at_least=0.8))
    ours, theirs = (median(side) * 1000 for side in zip(*late, strict=True))
    yield Measured("worst lateness of a 1 ms timer, unpersisted", theirs, "ms")
    yield Measured("worst lateness of a 1 ms timer, above unpersisted", ours - theirs, "ms", Bound(at_most=10))


def duration(side: Side) -> float:
    (stream,) = side.load(TASK, history=HISTORY)
    return stream.last - stream.sent


def lateness(side: Side) -> float:
    timer = f"{side.server.url}/lateness/"
    urlopen(timer).close()  # noqa: S310
    side.load(TASK, history=HISTORY)
    with urlopen(timer) as answer:  # noqa: S310
        worst: float = json.load(answer)
    return worst
