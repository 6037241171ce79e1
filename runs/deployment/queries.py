"""Read the health of the jobs, exits of parts, and the notice to all users."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from runs.alerts.rules import AlertKind, Condition
from runs.deployment.models import PartExit, ProcessHeartbeat, ServerNotice
from runs.deployment.rules import SILENT_SECONDS, JobsHealth
from runs.deployment.schemas import Notice

EXIT_SHOWN_FOR: Final = timedelta(days=1)
EXIT_ALERTS_FOR: Final = timedelta(minutes=10)


def notice(*, now: datetime) -> Notice | None:
    """Return the current notice, or None."""
    found = ServerNotice.objects.first()
    if found is None or (found.until is not None and found.until <= now):
        return None
    return Notice(**{name: getattr(found, name) for name in Notice.__struct_fields__})


def jobs_health(*, now: datetime) -> JobsHealth:
    """Return whether the background jobs run, from the heartbeats of the last hour."""
    columns = ("kind", "started_at", "confirmed_at", "details__job_at")
    rows = list(
        ProcessHeartbeat.objects.filter(kind__in=("web", "worker", "scheduler")).values_list(
            *columns
        )
    )
    web = [
        (now - started_at).total_seconds()
        for kind, started_at, confirmed_at, _ in rows
        if kind == "web" and (now - confirmed_at).total_seconds() <= SILENT_SECONDS
    ]
    jobs = [datetime.fromisoformat(job_at) for *_, job_at in rows if job_at]
    return JobsHealth(
        observed_seconds=max(0.0, *web) if web else 0.0,
        worker_seconds=_newest_age([row[2] for row in rows if row[0] == "worker"], now=now),
        scheduler_seconds=_newest_age([row[2] for row in rows if row[0] == "scheduler"], now=now),
        job_seconds=_newest_age(jobs, now=now),
    )


def _newest_age(times: Sequence[datetime], *, now: datetime) -> float | None:
    return max(0.0, (now - max(times)).total_seconds()) if times else None


def part_exits(*, now: datetime) -> list[PartExit]:
    """Return the parts that exited within a day, the last one first."""
    recent = PartExit.objects.filter(last_at__gt=now - EXIT_SHOWN_FOR)
    return list(recent.order_by("-last_at", "pk"))


def stopped_jobs(now: datetime) -> list[Condition]:
    """Return a condition if background jobs do not run."""
    problem = jobs_health(now=now).problem
    if not problem:
        return []
    return [Condition(kind=AlertKind.JOBS_DOWN, message=f"background jobs do not run: {problem}")]


def exited_parts(now: datetime) -> list[Condition]:
    """Return the parts of the server that exited within :data:`EXIT_ALERTS_FOR`.

    The log is for administrators, so the message has none of it.
    """
    return [
        Condition(
            kind=AlertKind.PART_EXITED,
            subject=f"{row.part} on {row.host}",
            message=f"{row.reason} on {row.host}"
            + (f", exit {row.exits:,} since {row.first_at:%H:%M} UTC" if row.exits > 1 else ""),
            details={"part": row.part, "host": row.host, "exits": row.exits},
        )
        for row in part_exits(now=now)
        if now - row.last_at < EXIT_ALERTS_FOR
    ]
