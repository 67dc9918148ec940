"""Coming back to a run with a long log: at its end, in the middle of it all by a preamble, and from the beginning."""

from collections.abc import Iterator
from statistics import median

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import Side, Stream, alternate, django
from django_pydantic_agent.contrib.store.models import Run

SHORT, LONG = 100, 100_000
READS = 5


def measure(rounds: int) -> Iterator[Measured]:
    with django() as server:
        agent = mount(server, "/agent/")
        for events in (SHORT, LONG):
            agent.load(Task(deltas=events), run_id=f"run-{events}")
        short, long = (mount(server, f"/agent/runs/run-{events}/events/") for events in (SHORT, LONG))
        ends = [f"?after={Run.objects.get(run_id=f'run-{events}').last_seq - 1}" for events in (SHORT, LONG)]
        waits = alternate(READS * rounds, lambda: first_frame(short, ends[0]), lambda: first_frame(long, ends[1]))
        yield from compared("by cursor", waits)
        snapshot = "?from=snapshot"
        waits = alternate(READS * rounds, lambda: first_frame(short, snapshot), lambda: first_frame(long, snapshot))
        yield from compared("by preamble", waits)
        memory = mount(server, f"/from-memory/run-{LONG}/")
        rates = alternate(rounds, lambda: rate(long.read()), lambda: rate(memory.read()))
    ours, theirs = (median(side) for side in zip(*rates, strict=True))
    yield Measured(f"replay of {LONG:,} events", ours / 1e6, "MB/s")
    yield Measured(f"replay of {LONG:,} events, from memory", theirs / 1e6, "MB/s")
    ratio = median(mine / other for mine, other in rates)
    yield Measured(f"replay of {LONG:,} events, against memory", ratio, "", Bound(at_least=0.5))


def compared(how: str, waits: list[tuple[float, ...]]) -> Iterator[Measured]:
    what = f"first frame at the end of a run {how}"
    for events, side in zip((SHORT, LONG), zip(*waits, strict=True), strict=True):
        yield Measured(f"{what}, {events:,} events", median(side) * 1000, "ms")
    ratio = median(long / short for short, long in waits)
    yield Measured(f"{what}, {LONG:,} events against {SHORT}", ratio, "", Bound(at_most=3))


def first_frame(side: Side, query: str) -> float:
    stream = side.read(query)
    return stream.first - stream.sent


def rate(stream: Stream) -> float:
    return stream.bytes / (stream.last - stream.first)
