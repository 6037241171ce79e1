"""A version reaches a worker that misses a call, without blocking anything."""

from concurrent.futures import Future
from typing import Any

import pytest

from rollouts.fleet.manager.weights_distributor import WEIGHTS_SECONDS, WeightsDistributor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.weights.records import WeightsRecord


class Worker:
    """Worker that answers on request of the test."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Future[Any]]] = []

    def submit(self, method: str, offer: WeightsRecord) -> "Future[Any]":
        assert method == "update_weights"
        self.calls.append((offer.step, Future()))
        return self.calls[-1][1]

    def steps(self) -> list[int]:
        return [step for step, _ in self.calls]


def version(step: int, *, order: int = 0) -> WeightsRecord:
    return WeightsRecord(epoch=1, step=step, tensors={}, order=order)


@pytest.fixture
def events() -> EventLog:
    return EventLog()


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def distributor(events: EventLog) -> WeightsDistributor:
    return WeightsDistributor(3, events)


def test_an_unanswered_call_is_reported_and_repeated_with_the_newest_version(
    distributor: WeightsDistributor, worker: Worker, events: EventLog
) -> None:
    distributor.offer(version(1), worker, 0.0)  # type: ignore[arg-type]
    distributor.offer(version(2), worker, 1.0)  # type: ignore[arg-type]
    distributor.on_offer_answer(WEIGHTS_SECONDS - 1, has_started=True)
    assert worker.steps() == [1]
    assert events.pop() == []

    distributor.on_offer_answer(WEIGHTS_SECONDS + 1, has_started=True)
    [event] = events.pop()
    assert (event.kind, event.details["worker"]) == ("weights_not_delivered", 3)
    assert event.message == "Worker 3 did not take version 1: no answer within 60 s"

    distributor.offer(version(2), worker, WEIGHTS_SECONDS + 1)  # type: ignore[arg-type]
    worker.calls[-1][1].set_result((1, 2))
    distributor.on_offer_answer(WEIGHTS_SECONDS + 2, has_started=True)
    distributor.offer(version(2), worker, WEIGHTS_SECONDS + 2)  # type: ignore[arg-type]
    assert worker.steps() == [1, 2]
    assert events.pop() == []


def test_a_failed_call_is_reported_and_repeated(
    distributor: WeightsDistributor, worker: Worker, events: EventLog
) -> None:
    distributor.offer(version(1), worker, 0.0)  # type: ignore[arg-type]
    worker.calls[-1][1].set_exception(ConnectionError("the object store is full"))
    distributor.on_offer_answer(0.1, has_started=True)
    distributor.offer(version(1), worker, 0.2)  # type: ignore[arg-type]

    assert worker.steps() == [1, 1]
    [event] = events.pop()
    assert event.message.startswith("Worker 3 did not take version 1: ")
    assert "the object store is full" in event.message


def test_a_starting_worker_has_no_timeout(
    distributor: WeightsDistributor, worker: Worker, events: EventLog
) -> None:
    distributor.offer(version(1), worker, 0.0)  # type: ignore[arg-type]
    distributor.on_offer_answer(10 * WEIGHTS_SECONDS, has_started=False)

    assert events.pop() == []


def test_a_successor_receives_the_version_of_its_predecessor(
    distributor: WeightsDistributor, worker: Worker
) -> None:
    distributor.offer(version(1), worker, 0.0)  # type: ignore[arg-type]
    worker.calls[-1][1].set_result((1, 1))
    distributor.on_offer_answer(0.1, has_started=True)
    distributor.reset_offers()
    distributor.offer(version(1), worker, 0.2)  # type: ignore[arg-type]

    assert worker.steps() == [1, 1]


def test_commands_are_sent_although_the_worker_has_the_same_or_a_later_version(
    distributor: WeightsDistributor, worker: Worker
) -> None:
    for step, order in [(8, 0), (8, 0), (8, 1), (5, 2), (8, 1), (5, 2)]:
        distributor.offer(version(step, order=order), worker, 0.0)  # type: ignore[arg-type]
        if not worker.calls[-1][1].done():
            worker.calls[-1][1].set_result((1, step))
        distributor.on_offer_answer(0.1, has_started=True)

    assert worker.steps() == [8, 8, 5]
