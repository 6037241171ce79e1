"""Versions reach every worker that takes them, without blocking anything."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from small_platform import SmallPlatform, served

from rolldeck.operator_requests import RestartCommand
from rolldeck.wire import FleetEvent
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.worker_supervisor import WEIGHTS_SECONDS, WeightsDistributor
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.policies.networks import MlpPolicy, TorchMlp
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsRecord
from tests.waiting import eventually

MakeSettings = Callable[..., FleetSettings]
ENDLESS = {"spec": "odd:counting", "kwargs": {"seconds": 0.01, "length": 10**9}}


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


@contextmanager
def managed(settings: FleetSettings) -> Iterator[RolloutManager]:
    manager = RolloutManager(settings, LocalWorkers())
    try:
        yield manager
    finally:
        manager.shutdown()


def active(platform: SmallPlatform) -> list[int]:
    return [worker.active_step for worker in platform.reports[-1].workers]


def orders(platform: SmallPlatform) -> list[int]:
    return [worker.transfers.order for worker in platform.reports[-1].workers]


def test_workers_and_new_managers_keep_the_pinned_version(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=2, max_staleness=100)
        with managed(settings):
            platform.publish(0)
            eventually(lambda: platform.reports and active(platform) == [0, 0])
            platform.command(pinned=0)
            eventually(lambda: orders(platform) == [1, 1])
            platform.publish(1)
            platform.publish(2)
            seen = len(platform.reports)
            eventually(lambda: len(platform.reports) > seen + 3)
            assert active(platform) == [0, 0]
        platform.reports.clear()
        with managed(settings):
            eventually(lambda: platform.reports and active(platform) == [0, 0])
            assert orders(platform) == [1, 1]
            platform.command(pinned=None)
            eventually(lambda: active(platform) == [2, 2])
            assert orders(platform) == [2, 2]

    assert {fragment.version_max for fragment in platform.fragments.values()} <= {0, 2}


def test_workers_load_and_label_an_older_pinned_version(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    with (
        served(platform) as url,
        managed(make_settings(url=url, num_workers=2, max_staleness=100)),
    ):
        platform.publish(3)
        platform.publish(5)
        eventually(lambda: platform.reports and active(platform) == [5, 5])
        platform.command(pinned=3)
        eventually(lambda: active(platform) == [3, 3])
        count = len(platform.fragments)
        eventually(lambda: len(platform.fragments) > count + 8)
        newest = [platform.fragments[key] for key in platform.order[-4:]]

    assert {fragment.version_max for fragment in newest} == {3}


def test_a_sync_reloads_the_same_version_in_every_worker(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    with (
        served(platform) as url,
        managed(make_settings(url=url, num_workers=2, max_staleness=100)),
    ):
        platform.publish(0)
        eventually(lambda: platform.reports and active(platform) == [0, 0])
        platform.command(pinned=None)
        eventually(lambda: orders(platform) == [1, 1])
        taken = [worker.transfers.adopted for worker in platform.reports[-1].workers]

    assert taken == [2, 2]
    assert active(platform) == [0, 0]


class Hanging(TorchMlp):
    """Policy that takes the first weights and hangs on the second ones."""

    prepared = 0

    def __init__(self, observation: Space, action: Space) -> None:
        module = MlpPolicy(4, 2, [8])
        super().__init__(module, observation=observation, action=action, seed=0, device="cpu")

    def prepare(self, tensors: Any) -> Any:
        self.prepared += 1
        if self.prepared > 1:
            time.sleep(20.0)
        return super().prepare(tensors)


class OneHangs(LocalWorkers):
    """Workers in this process; the first incarnation of worker 1 hangs at the second version."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[int] = []

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        self.spawned.append(settings.index)
        if self.spawned.count(1) == 1 and settings.index == 1:
            handle = LocalHandle.__new__(LocalHandle)
            handle._wrapper = RolloutWorkerWrapper(settings, policy_factory=Hanging)
            return handle
        return super().spawn(settings)


class OneIsDeaf(LocalWorkers):
    """Workers in this process; worker 1 never answers weight offers."""

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        handle = super().spawn(settings)
        if settings.index == 1:
            submit = handle.submit

            def deaf(method: str, *arguments: object) -> Future[Any]:
                return Future() if method == "update_weights" else submit(method, *arguments)

            handle.submit = deaf  # type: ignore[method-assign]
        return handle


def events_of(platform: SmallPlatform, kind: str) -> list[FleetEvent]:
    return [event for event in platform.all_events() if event.kind == kind]


def test_two_workers_continue_while_the_third_hangs_and_is_replaced(
    make_settings: MakeSettings,
) -> None:
    platform, source = SmallPlatform(), OneHangs()
    with served(platform) as url:
        settings = make_settings(
            url=url, num_workers=3, weights_timeout_seconds=1.0, max_staleness=100
        )
        manager = RolloutManager(settings, source)
        try:
            platform.publish(0)
            eventually(lambda: platform.reports and active(platform) == [0, 0, 0], 60.0)
            platform.publish(1)
            eventually(lambda: [active(platform)[i] for i in (0, 2)] == [1, 1], 60.0)
            assert source.spawned.count(1) == 1, "the other workers waited for the third"
            eventually(lambda: active(platform) == [1, 1, 1], 60.0)
        finally:
            manager.shutdown()

    lost = events_of(platform, "worker_respawned")
    assert [event.details["worker"] for event in lost] == [1]
    assert "a version has been loading for" in lost[0].message
    assert source.spawned.count(1) == 2


def test_a_failed_call_to_a_worker_does_not_affect_the_others(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        manager = RolloutManager(make_settings(url=url, num_workers=3), OneIsDeaf())
        try:
            for step in range(3):
                platform.publish(step)
                eventually(
                    lambda step=step: (
                        platform.reports and [active(platform)[i] for i in (0, 2)] == [step, step]
                    ),
                    60.0,
                )
            report = platform.reports[-1]
        finally:
            manager.shutdown()

    # Three numbers per worker: announced, received and active version.
    seen = [(w.announced_step, w.staged_step, w.active_step) for w in report.workers]
    assert seen == [(2, 2, 2), (2, -2, -2), (2, 2, 2)]
    assert [w.transfers.adopted > 0 for w in report.workers] == [True, False, True]


class Mortal(LocalWorkers):
    """Worker source whose workers can be made unresponsive."""

    def __init__(self) -> None:
        self.handles: list[MortalHandle] = []

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        self.handles.append(MortalHandle(settings))
        return self.handles[-1]


class MortalHandle(LocalHandle):
    is_dead = False

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        if not self.is_dead:
            return super().submit(method, *arguments)
        dead: Future[Any] = Future()
        dead.set_exception(ConnectionError("the process is gone"))
        return dead


def failed(platform: SmallPlatform) -> list[FleetEvent]:
    return [event for event in platform.all_events() if event.kind == "evaluation_failed"]


def evaluations() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.endswith("evaluation round")}


@pytest.mark.parametrize("is_crash", [True, False])
def test_an_evaluation_that_ends_with_its_worker_is_one_event(
    make_settings: MakeSettings, is_crash: bool
) -> None:
    platform, source = SmallPlatform(), Mortal()
    platform.publish(0)
    schedule = {"every_train_steps": 2, "episodes": 3, "envs": 1}
    before = evaluations()
    with served(platform) as url:
        settings = make_settings(url=url, evaluation=schedule, **ENDLESS)
        manager = RolloutManager(settings, source)
        try:
            eventually(lambda: evaluations() - before, 60.0)
            known = len(platform.reports)
            eventually(lambda: len(platform.reports) > known + 1)
            if is_crash:
                source.handles[0].is_dead = True
            else:
                incarnation = platform.reports[-1].workers[0].incarnation
                platform.restarts = [
                    RestartCommand(worker=0, incarnation=incarnation, reason="try")
                ]
            eventually(lambda: failed(platform), 60.0)
            eventually(lambda: platform.reports[-1].workers[0].state == "running", 60.0)
            eventually(lambda: evaluations() - before, 60.0)
        finally:
            manager.shutdown()

    [event] = failed(platform)
    reason = (
        "worker 0 ended: ConnectionError: the process is gone"
        if is_crash
        else "worker 0 ended during the evaluation"
    )
    assert event.message == f"The evaluation of version 0 failed: {reason}"
    assert (event.details["reason"], event.details["version"]) == (reason, [1, 0])
    assert event.details["worker"] == 0
