"""Many viewers of one fast run, in two processes, who come at any moment."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

from django.db import connections

from tests.live.gates import Gatekeeper
from tests.live.scripts import call, gate, pause, script, spell
from tests.live.visitors import WAIT_SECONDS, Visitor, check_complete, fresh, read_run, run_input, text_of
from tests.servers import Server
from tests.sse import Frame

FOLLOWERS = 100
WORDS = 60


def test_100_followers_at_random_ticks_of_a_fast_run_in_two_processes_see_all_of_it_once(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper
):
    run_id, begins, random = fresh("run"), fresh("begins"), Random(4)
    said = [step for number in range(WORDS) for step in (spell(f"word {number}, "), pause(0.02))]
    body = run_input(run_id, script([gate(begins), *said[:60], call("quick", word="a")], said[60:]))
    ticks = sorted(random.randrange(2, 400) for _ in range(FOLLOWERS))

    def follow(index: int) -> list[Frame]:
        try:
            with visitor.follow((uvicorn, daphne)[index % 2], run_id, timeout=3 * WAIT_SECONDS) as response:
                return read_run(response)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(FOLLOWERS) as threads, visitor.send(uvicorn, body) as first:
        seen: list[Frame] = []
        followers = []
        gates.open(begins)
        for frame in first.frames():
            seen.append(frame)
            while ticks and len(seen) >= ticks[0]:
                ticks.pop(0)
                followers.append(threads.submit(follow, len(followers)))
        followers += [threads.submit(follow, len(followers) + index) for index in range(len(ticks))]
        answers = [follower.result(5 * WAIT_SECONDS) for follower in followers]
    assert len(answers) == FOLLOWERS
    whole = "".join(f"word {number}, " for number in range(WORDS))
    for frames in [seen, *answers]:
        assert text_of(frames) == whole
    visitor.ended(run_id)
    check_complete(visitor, run_id, seen)
    log = [frame.raw for frame in seen]
    assert all([frame.raw for frame in frames] == log for frames in answers)
