"""Tests of the suspension of garbage collection in all threads."""

import gc
import threading
import weakref
from typing import Any

import pytest

from rollouts.fleet import ray_internals
from rollouts.fleet.ray_internals import no_collection
from tests.waiting import within


class Knot:
    """A reference cycle, freed only by a collection."""

    def __init__(self, at_the_end: Any = None) -> None:
        self.me = self
        self.at_the_end = at_the_end

    def __del__(self) -> None:
        if self.at_the_end is not None:
            self.at_the_end()


def litter() -> weakref.ref[Knot]:
    """Create enough garbage to trigger a collection; return a reference to one object."""
    first = weakref.ref(Knot())
    for _ in range(gc.get_threshold()[0] * 3):
        Knot()
    return first


def litter_in_a_thread() -> weakref.ref[Knot]:
    references: list[weakref.ref[Knot]] = []
    thread = threading.Thread(target=lambda: references.append(litter()))
    thread.start()
    thread.join()
    return references[0]


def test_garbage_collection_is_paused_for_all_threads() -> None:
    with no_collection():
        assert litter_in_a_thread()() is not None

    assert litter_in_a_thread()() is None
    assert gc.isenabled()


def test_a_collection_that_has_begun_is_waited_for() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    held_back: list[bool] = []

    def finalize() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    def collect() -> None:
        Knot(finalize)
        gc.collect()

    def hold_back() -> None:
        with no_collection():
            held_back.append(ended.is_set())

    threads = [threading.Thread(target=collect), threading.Thread(target=hold_back)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    waited = threads[1].is_alive()
    may_end.set()
    for thread in threads:
        thread.join(10)

    assert waited
    assert held_back == [True]


def test_the_wait_for_a_collection_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_internals, "MAX_PAUSE_SECONDS", 0.05)
    begun, may_end = threading.Event(), threading.Event()

    def finalize() -> None:
        begun.set()
        may_end.wait(10)

    def collect() -> None:
        Knot(finalize)
        gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    assert begun.wait(10)
    with no_collection():
        still_collects = thread.is_alive()
    may_end.set()

    assert still_collects
    assert within(10, lambda: not thread.is_alive())


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
