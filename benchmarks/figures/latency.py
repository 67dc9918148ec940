"""How old a delta of the model is when the client has it."""

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import Stream, alternate, bare, django

PER_SECOND = 50
SECONDS = 6
# How much older than bare's the median and the 99th percentile may be, in milliseconds; 40 runs are reported.
ALLOWED = {5: (5, 20), 25: (20, 120), 40: (None, None)}


def measure(rounds: int) -> Iterator[Measured]:
    with bare() as other, django() as server:
        durable = mount(server, "/agent/")
        for runs, allowed in ALLOWED.items():
            tasks = [task(number, runs) for number in range(runs)]
            pairs = alternate(
                min(rounds, 3),
                lambda tasks=tasks: ages(durable.load(*tasks)),
                lambda tasks=tasks: ages(other.load(*tasks)),
            )
            for name, place, limit in zip(("p50", "p99"), (0, 1), allowed, strict=True):
                ours, theirs = (median(pair[side][place] for pair in pairs) for side in (0, 1))
                yield Measured(f"delta latency {name}, {runs} runs, bare", theirs, "ms")
                bound = Bound(at_most=limit) if limit is not None else None
                yield Measured(f"delta latency {name}, {runs} runs, above bare", ours - theirs, "ms", bound)


def task(number: int, runs: int) -> Task:
    """Return the task of one run: nobody speaks before all runs have begun, and no two at the same moment."""
    wait = 1.5 + number / runs / PER_SECOND
    return Task(wait=wait, deltas=PER_SECOND * SECONDS, per_second=PER_SECOND)


def ages(streams: Sequence[Stream]) -> tuple[float, float]:
    """Return the median and the 99th percentile in milliseconds."""
    cuts = quantiles((age * 1000 for stream in streams for age in stream.ages), n=100)
    return cuts[49], cuts[98]
