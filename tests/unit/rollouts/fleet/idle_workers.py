"""Workers that answer every heartbeat at once and generate nothing, in place of a cluster's."""

from concurrent.futures import Future
from typing import Any, Literal

from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.workers import LocalWorkers
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState


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
