"""Events per second of runs whose model never waits."""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import Stream, alternate, bare, django

RUNS = 4
TASK = Task(deltas=1500)


def measure(rounds: int) -> Iterator[Measured]:
    with bare() as other, django() as server:
        durable = mount(server, "/agent/")
        pairs = alternate(
            rounds,
            lambda: rate(durable.load(*[TASK] * RUNS)),
            lambda: rate(other.load(*[TASK] * RUNS)),
        )
    ours, theirs = zip(*pairs, strict=True)
    yield Measured(f"events per second, {RUNS} runs", median(ours), "/s")
    yield Measured(f"events per second, {RUNS} runs, bare", median(theirs), "/s")
    ratio = median(mine / other for mine, other in pairs)
    yield Measured(f"events per second, {RUNS} runs, against bare", ratio, "", Bound(at_least=0.9))


def rate(streams: Sequence[Stream]) -> float:
    took = max(stream.last for stream in streams) - min(stream.sent for stream in streams)
    return sum(stream.events for stream in streams) / took
