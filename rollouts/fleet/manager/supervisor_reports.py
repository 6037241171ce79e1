"""Complete worker reports, and build reports for absent workers."""

from typing import Final

from msgspec.structs import replace

from rolldeck.wire import WorkerReport

MEASURED: Final = (
    *("stages", "time_use", "shares", "last_log", "replicas"),
    *("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes", "machine"),
)
"""Fields that are measured once a second and stay valid until the next measurement."""


def absent_report(
    index: int,
    incarnation: str,
    *,
    is_given_up: bool,
    restarts: int,
    reason: str,
    announced_step: int,
) -> WorkerReport:
    """Return the report of a worker that has not answered yet or never will."""
    coming = "respawning" if restarts else "starting"
    return WorkerReport(
        index=index,
        incarnation=incarnation,
        state="failed" if is_given_up else coming,  # type: ignore[arg-type]
        reason=reason,
        restarts=restarts,
        announced_step=announced_step,
    )


def final_report(
    index: int, incarnation: str, last: WorkerReport | None, *, restarts: int
) -> WorkerReport:
    """Return the report of a worker that has ended, based on its last one."""
    known = last or WorkerReport(index=index, incarnation=incarnation, state="stopped")
    slots = [replace(slot, state="stopped", pid=None) for slot in known.slots]
    return replace(known, state="stopped", reason="", restarts=restarts, slots=slots, machine=None)


def with_measurements(report: WorkerReport, measured: WorkerReport) -> WorkerReport:
    """Return `report` with the measurements of an earlier report."""
    return replace(report, **{name: getattr(measured, name) for name in MEASURED})


def with_losses(report: WorkerReport, lost_steps: int) -> WorkerReport:
    """Return `report` with the steps lost by earlier incarnations."""
    if not lost_steps:
        return report
    return replace(report, dropped_steps={**report.dropped_steps, "worker_lost": lost_steps})
