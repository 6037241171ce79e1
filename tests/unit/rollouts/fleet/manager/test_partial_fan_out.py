"""A worker that does not take new weights blocks no other worker, and is replaced."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from small_platform import SmallPlatform, served

from rolldeck.wire import FleetEvent
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.policies.networks import TorchMlp
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


class Hanging(TorchMlp):
    """Policy that takes the first weights and hangs on the second ones."""

    prepared = 0

    def __init__(self, observation: Space, action: Space) -> None:
        super().__init__(observation, action, hidden_sizes=[8], seed=0, device="cpu")

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


def active(platform: SmallPlatform) -> list[int]:
    return [worker.active_step for worker in platform.reports[-1].workers]


def events(platform: SmallPlatform, kind: str) -> list[FleetEvent]:
    by_report = {report.sequence: report.events for report in platform.reports}
    return [
        event
        for events_of_report in by_report.values()
        for event in events_of_report
        if event.kind == kind
    ]


def test_two_workers_continue_while_the_third_hangs_and_is_replaced(
    make_settings: MakeSettings, eventually: Eventually
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

    lost = events(platform, "worker_respawned")
    assert [event.details["worker"] for event in lost] == [1]
    assert "a version has been loading for" in lost[0].message
    assert source.spawned.count(1) == 2


def test_a_failed_call_to_a_worker_does_not_affect_the_others(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
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
