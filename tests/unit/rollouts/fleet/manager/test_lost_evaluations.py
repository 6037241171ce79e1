"""An evaluation that ends with worker 0 is one event, and the successor evaluates again."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from small_platform import SmallPlatform, served

from rolldeck.operator_requests import RestartCommand
from rolldeck.wire import FleetEvent
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]
ENDLESS = {"spec": "odd:counting", "kwargs": {"seconds": 0.01, "length": 10**9}}


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
    make_settings: MakeSettings, eventually: Eventually, is_crash: bool
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
