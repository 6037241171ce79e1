"""Workers that answer at once and generate nothing, in place of a cluster's."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from rolldeck.wire import ReportedWorkerState, WorkerReport
from rollouts.fleet.manager.workers import LocalWorkers
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState


def state_of(
    state: ReportedWorkerState, *, reason: str = "", env_steps: int = 0, **changes: Any
) -> WorkerState:
    """Return the state of worker 0, which holds nothing."""
    report = WorkerReport(index=0, incarnation="a", state=state, reason=reason, env_steps=env_steps)
    empty = {"unspent": 0, "outstanding": 0, "accepted": 0, "is_drained": False}
    return WorkerState(report=report, **(empty | changes))


class AnsweringWorkers(LocalWorkers):
    """Source of a worker, and its handle; `answer` returns its next answer, None for silence."""

    def __init__(self, answer: Callable[[], WorkerState | None]) -> None:
        self.calls: list[str] = []
        self._answer = answer

    def spawn(self, settings: WorkerSettings) -> "AnsweringWorkers":
        del settings
        return self

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        del arguments
        self.calls.append(method)
        future: Future[Any] = Future()
        if (state := self._answer()) is not None:
            future.set_result(state)
        return future

    def kill(self) -> None:
        """Do nothing: there is no process."""

    def obstacle(self) -> str:
        return ""

    def is_placed(self) -> bool:
        return True


class IdleWorker:
    """Handle of a worker on a node; it drains in no time."""

    def __init__(self, settings: WorkerSettings, *, node_id: str = "") -> None:
        self._settings = settings
        self._node_id = node_id

    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._state(*arguments) if method == "heartbeat" else None)
        return future

    def kill(self) -> None:
        """Do nothing: there is no process."""

    def obstacle(self) -> str:
        return ""

    def is_placed(self) -> bool:
        return True

    def _state(self, command: WorkerCommand) -> WorkerState:
        state: Literal["draining", "paused", "running"] = "running"
        if command.desired in {"draining", "paused"}:
            state = command.desired
        report = WorkerReport(
            index=self._settings.index,
            incarnation=self._settings.incarnation,
            state=state,
            node_id=self._node_id,
        )
        is_drained = command.desired == "draining"
        return WorkerState(
            report=report, unspent=0, outstanding=0, accepted=0, is_drained=is_drained
        )


class IdleWorkers(LocalWorkers):
    """Source of :class:`IdleWorker` handles."""

    def spawn(self, settings: WorkerSettings) -> IdleWorker:
        return IdleWorker(settings)
