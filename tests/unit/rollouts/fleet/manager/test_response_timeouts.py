"""Workers have minutes to start, and seconds to answer while they run."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from rolldeck.wire import ReportedWorkerState, WorkerReport
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState

MakeSettings = Callable[..., FleetSettings]
COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0)


class SilentWorkers:
    """Workers that answer the first command and none of the following."""

    def __init__(self, state: ReportedWorkerState) -> None:
        self.state = state
        self.commands = 0

    def spawn(self, _: object) -> "SilentWorkers":
        return self

    def submit(self, _: str, *__: object) -> "Future[Any]":
        future: Future[Any] = Future()
        self.commands += 1
        if self.commands == 1:
            report = WorkerReport(index=0, incarnation="a", state=self.state)
            future.set_result(
                WorkerState(report=report, unspent=0, outstanding=0, accepted=0, is_drained=False)
            )
        return future

    def kill(self) -> None:
        """Do nothing: there is no process."""

    def obstacle(self) -> str:
        return ""


@pytest.mark.parametrize(("state", "limit"), [("starting", 180.0), ("running", 15.0)])
def test_a_starting_worker_has_a_longer_timeout(
    make_settings: MakeSettings, state: ReportedWorkerState, limit: float
) -> None:
    source, events = SilentWorkers(state), EventLog()
    worker = WorkerSupervisor(0, settings=make_settings(), source=source, events=events)  # type: ignore[arg-type]
    worker.turn(0.0)
    worker.give(COMMAND, 0.0)
    worker.turn(0.1)
    worker.give(COMMAND, 0.1)

    worker.turn(limit)
    assert worker.report(0).state == state

    worker.turn(limit + 1)
    reported = worker.report(0)
    assert (reported.state, reported.reason) == ("respawning", f"did not answer for {limit:.0f} s")
