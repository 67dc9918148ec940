"""How long 40 runs that start at once wait for their first frame."""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import Stream, alternate, bare, django

RUNS = 40
# The model's first delta comes when all have their first byte.
TASK = Task(wait=3.0)


def measure(rounds: int) -> Iterator[Measured]:
    with bare() as other, django() as server:
        durable, floor = mount(server, "/agent/"), mount(server, "/one-frame/")
        triples = alternate(
            rounds, *(lambda side=side: first_byte(side.load(*[TASK] * RUNS)) for side in (durable, floor, other))
        )
    ours, floors, bares = (median(side) for side in zip(*triples, strict=True))
    yield Measured(f"first byte p50, {RUNS} at once", ours * 1000, "ms")
    yield Measured(f"first byte p50, {RUNS} at once, plain DRF view", floors * 1000, "ms")
    yield Measured(f"first byte p50, {RUNS} at once, bare", bares * 1000, "ms")
    ratio = median(mine / floor for mine, floor, _ in triples)
    yield Measured(f"first byte p50, {RUNS} at once, against a plain DRF view", ratio, "", Bound(at_most=1.5))


def first_byte(streams: Sequence[Stream]) -> float:
    return median(stream.first - stream.sent for stream in streams)
