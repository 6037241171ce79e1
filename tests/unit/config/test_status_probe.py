"""A hanging probe is never waited for without limit, and never runs twice at a time."""

import threading
import time

from config.cluster.status import StatusProbe
from tests.factories import NOON
from tests.server import wait_until


def soon() -> float:
    return time.monotonic() + 30


def test_a_part_that_answers_is_up_with_the_time_of_its_answer() -> None:
    probe = StatusProbe(lambda: 7, clock=lambda: NOON)
    probe.start()

    result = probe.result(by=soon())

    assert (result.state, result.answer, result.problem) == ("up", 7, "")
    assert result.confirmed_at == NOON
    assert result.took_ms is not None


def test_a_probe_returns_the_value_it_began_with() -> None:
    probe = StatusProbe(lambda workers: 2 * workers, clock=lambda: NOON)
    probe.start(3)

    assert probe.result(by=soon()).answer == 6


def test_a_failed_part_is_down_and_keeps_its_last_result() -> None:
    answers = iter([1])
    probe = StatusProbe(lambda: next(answers), fresh_seconds=0.0, clock=lambda: NOON)
    probe.start()
    first = probe.result(by=soon())
    probe.start()

    result = probe.result(by=soon())

    assert (result.state, result.answer, result.problem) == ("down", 1, "StopIteration")
    assert result.confirmed_at == first.confirmed_at == NOON


def test_a_hanging_part_is_unknown_after_the_timeout() -> None:
    hangs = threading.Event()
    probe = StatusProbe(lambda: hangs.wait(60), clock=lambda: NOON)
    probe.start()

    began = time.monotonic()
    result = probe.result(by=began + 0.05)

    assert result.state == "unknown"
    assert "no answer" in result.problem
    assert time.monotonic() - began < 20
    hangs.set()


def test_a_probe_that_hangs_starts_no_second_one() -> None:
    goes_on, probes = threading.Event(), []

    def probe() -> None:
        probes.append(1)
        goes_on.wait(60)

    status_probe = StatusProbe(probe, fresh_seconds=0, clock=lambda: NOON)
    for _ in range(5):
        status_probe.start()
    assert status_probe.result(by=time.monotonic()).state == "unknown"
    goes_on.set()
    assert status_probe.result(by=soon()).state == "up"
    assert len(probes) == 1

    status_probe.start()
    wait_until(lambda: len(probes) == 2, seconds=30, what="it is looked at again")


def test_a_fresh_status_is_not_probed_again() -> None:
    probes: list[int] = []
    status_probe = StatusProbe(lambda: probes.append(1), fresh_seconds=3600, clock=lambda: NOON)
    for _ in range(3):
        status_probe.start()
        status_probe.result(by=soon())

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
        probe = StatusProbe(look, fresh_seconds=0.0, valid_seconds=believed, clock=lambda: NOON)
        probe.start()
        assert probe.result(by=soon()).state == "up"
        probe.start()
        assert probe.result(by=time.monotonic()).state == state
        goes_on.set()
