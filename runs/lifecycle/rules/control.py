"""Map a run's status to the state desired of its data producers."""

from typing import Final, Literal

from runs.lifecycle.rules.lifecycle import RunStatus

Desired = Literal["running", "paused", "draining", "stopped"]

DESIRED: Final[dict[RunStatus, Desired]] = {
    RunStatus.DRAFT: "paused",
    RunStatus.QUEUED: "paused",
    RunStatus.STARTING: "running",
    RunStatus.RUNNING: "running",
    RunStatus.PAUSED: "paused",
    RunStatus.DRAINING: "draining",
    RunStatus.COMPLETED: "stopped",
    RunStatus.STOPPED: "stopped",
    RunStatus.FAILED: "stopped",
}
