"""A hanging probe is never waited for without limit, and never runs twice at a time."""

import threading
import time

from config.cluster.status_probe import StatusProbe
from tests.factories import NOON
from tests.server import wait_until


def soon() -> float:
    return time.monotonic() + 30


def test_what_answers_is_up_with_the_time_of_its_proof() -> None:
    lookout = StatusProbe(lambda: 7, clock=lambda: NOON)
    lookout.begin()

    sight = lookout.sight(by=soon())

    assert (sight.state, sight.found, sight.problem) == ("up", 7, "")
    assert sight.confirmed_at == NOON
    assert sight.took_ms is not None


def test_a_probe_returns_the_value_it_began_with() -> None:
    lookout = StatusProbe(lambda workers: 2 * workers, clock=lambda: NOON)
    lookout.begin(3)

    assert lookout.sight(by=soon()).found == 6


def test_a_failed_part_is_down_and_keeps_its_last_result() -> None:
    answers = iter([1])
    lookout = StatusProbe(lambda: next(answers), fresh_seconds=0.0, clock=lambda: NOON)
    lookout.begin()
    first = lookout.sight(by=soon())
    lookout.begin()

    sight = lookout.sight(by=soon())

    assert (sight.state, sight.found, sight.problem) == ("down", 1, "StopIteration")
    assert sight.confirmed_at == first.confirmed_at == NOON


def test_what_hangs_is_unknown_at_once_when_the_time_is_over() -> None:
    hangs = threading.Event()
    lookout = StatusProbe(lambda: hangs.wait(60), clock=lambda: NOON)
    lookout.begin()

    began = time.monotonic()
    sight = lookout.sight(by=began + 0.05)

    assert sight.state == "unknown"
    assert "no answer" in sight.problem
    assert time.monotonic() - began < 20
    hangs.set()


def test_a_probe_that_hangs_starts_no_second_one() -> None:
    goes_on, probes = threading.Event(), []

    def probe() -> None:
        probes.append(1)
        goes_on.wait(60)

    status_probe = StatusProbe(probe, fresh_seconds=0, clock=lambda: NOON)
    for _ in range(5):
        status_probe.begin()
    assert status_probe.sight(by=time.monotonic()).state == "unknown"
    goes_on.set()
    assert status_probe.sight(by=soon()).state == "up"
    assert len(probes) == 1

    status_probe.begin()
    wait_until(lambda: len(probes) == 2, seconds=30, what="it is looked at again")


def test_a_fresh_status_is_not_probed_again() -> None:
    probes: list[int] = []
    status_probe = StatusProbe(lambda: probes.append(1), fresh_seconds=3600, clock=lambda: NOON)
    for _ in range(3):
        status_probe.begin()
        status_probe.sight(by=soon())

    assert probes == [1]


def test_a_slow_probe_does_not_overwrite_a_newer_status() -> None:
    goes_on, answers = threading.Event(), iter([1, 2])

    def look() -> int:
        answer = next(answers)
        if answer == 2:
            goes_on.wait(60)
        return answer

    for believed, state in ((3600.0, "up"), (0.0, "unknown")):
        goes_on.clear()
        answers = iter([1, 2])
        lookout = StatusProbe(
            look, fresh_seconds=0.0, believed_seconds=believed, clock=lambda: NOON
        )
        lookout.begin()
        assert lookout.sight(by=soon()).state == "up"
        lookout.begin()
        assert lookout.sight(by=time.monotonic()).state == state
        goes_on.set()
