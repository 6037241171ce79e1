"""Concurrent writes are combined; an error concerns its own item only."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from buffer.ingest.services.concurrent_pushes import GroupCommit
from tests.waiting import eventually


class Log:
    """A write that records its calls, and waits while it is held."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.released = threading.Event()

    def write(self, items: list[str]) -> list[str | Exception]:
        self.calls.append(items)
        assert self.released.wait(20)
        if "fails" in items:
            raise ValueError("fails")
        return [KeyError(item) if item == "bad" else item.upper() for item in items]


def submit(
    threads: ThreadPoolExecutor, commit: GroupCommit[str, str], *items: str
) -> list["Future[str]"]:
    """Submit items in order, each once the one before is waiting or being written."""
    results = []
    for item in items:
        known = len(commit._waiting)
        results.append(threads.submit(commit, item))
        if len(items) > 1:
            eventually(lambda known=known: len(commit._waiting) > known, 20)
    return results


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_single_item_is_written_at_once(log: Log) -> None:
    log.released.set()
    commit = GroupCommit(log.write, at_once=2)

    assert [commit("a"), commit("b")] == ["A", "B"]
    assert log.calls == [["a"], ["b"]]


def test_items_that_arrive_during_a_write_are_written_together(log: Log) -> None:
    commit = GroupCommit(log.write, at_once=1)
    with ThreadPoolExecutor(8) as threads:
        first = submit(threads, commit, "a")
        eventually(lambda: log.calls == [["a"]], 20)
        others = submit(threads, commit, "b", "c", "d")
        log.released.set()

        assert [result.result(20) for result in first + others] == ["A", "B", "C", "D"]
    assert log.calls == [["a"], ["b", "c", "d"]]


def test_as_many_writes_as_allowed_are_in_progress(log: Log) -> None:
    commit = GroupCommit(log.write, at_once=2)
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(commit, item) for item in "abcd"]
        eventually(lambda: len(log.calls) == 2 and len(commit._waiting) == 2, 20)
        log.released.set()

        assert [result.result(20) for result in results] == ["A", "B", "C", "D"]
    assert sorted(map(len, log.calls)) == [1, 1, 2]


def test_an_error_of_an_item_is_raised_for_it_alone(log: Log) -> None:
    commit = GroupCommit(log.write, at_once=1)
    with ThreadPoolExecutor(8) as threads:
        submit(threads, commit, "a")
        eventually(lambda: log.calls == [["a"]], 20)
        bad, good = submit(threads, commit, "bad", "good")
        log.released.set()

        assert good.result(20) == "GOOD"
        with pytest.raises(KeyError, match="bad"):
            bad.result(20)


def test_items_of_a_failed_write_are_written_one_by_one(log: Log) -> None:
    commit = GroupCommit(log.write, at_once=1)
    with ThreadPoolExecutor(8) as threads:
        submit(threads, commit, "a")
        eventually(lambda: log.calls == [["a"]], 20)
        fails, good = submit(threads, commit, "fails", "good")
        log.released.set()

        assert good.result(20) == "GOOD"
        with pytest.raises(ValueError, match="fails"):
            fails.result(20)
    assert log.calls == [["a"], ["fails", "good"], ["fails"], ["good"]]


def test_writes_continue_after_an_error(log: Log) -> None:
    log.released.set()
    commit = GroupCommit(log.write, at_once=1)
    with pytest.raises(ValueError, match="fails"):
        commit("fails")

    assert commit("a") == "A"
