"""A worker whose policy hangs is replaced with an event, a limited number of times."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from rollouts.fleet.manager.restart_policy import HANG_RULE
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps import wrapper
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand

MakeSettings = Callable[..., FleetSettings]
COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0, credits=10)
REASON = "the policy did not return for 0.2 s (policy.hung_after_seconds)"


class HangingPolicy:
    """Policy whose `act` never returns; its thread ends with the process."""

    def initial_state(self, _: int) -> dict[str, Any]:
        return {}

    def prepare(self, tensors: Any) -> Any:
        return tensors

    def adopt(self, _: object) -> None:
        """Accept any weights."""

    def act(self, *_: object) -> Any:
        return threading.Event().wait()


class HangingWorkers:
    """Source of workers in this process, whose policy hangs."""

    def __init__(self) -> None:
        self.spawned = 0
        self._present: RolloutWorkerWrapper | None = None

    def spawn(self, settings: WorkerSettings) -> "HangingWorkers":
        self.spawned += 1
        self._present = RolloutWorkerWrapper(
            settings,
            push=lambda _: pytest.fail("a fragment was sent"),
            policy_factory=lambda *_: HangingPolicy(),
        )
        self._present.update_weights(WeightsRecord(epoch=1, step=0, tensors={}))
        return self

    def submit(self, method: str, *arguments: object) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(getattr(self._present, method)(*arguments))
        return future

    def kill(self) -> None:
        assert self._present is not None
        self._present.stop()

    def obstacle(self) -> str:
        return ""

    def is_placed(self) -> bool:
        return True


def test_a_worker_whose_policy_hangs_is_replaced_and_then_abandoned(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper, "CLOSE_SECONDS", 0.05)
    settings = make_settings(policy={"hung_after_seconds": 0.2}, envs_in_worker=True)
    source, events = HangingWorkers(), EventLog()
    worker = WorkerSupervisor(0, settings=settings, source=source, events=events)  # type: ignore[arg-type]
    deadline = time.monotonic() + 60.0
    while not worker.is_given_up:
        assert time.monotonic() < deadline
        now = time.monotonic()
        worker.turn(now)
        worker.give(COMMAND, now)
        time.sleep(0.02)

    found = events.pop()
    kinds = [event.kind for event in found if event.kind.startswith("worker_")]
    assert kinds == ["worker_respawned"] * (source.spawned - 1) + ["worker_failed"]
    assert source.spawned == HANG_RULE.most_crashes
    assert all(REASON in event.message for event in found if event.kind in kinds)
    report = worker.report(0)
    assert (report.state, report.reason) == ("failed", REASON)
    assert msgspec.msgpack.encode(report)
