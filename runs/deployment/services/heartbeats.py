"""Record heartbeats of the deployment's processes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from runs.deployment.models.process_heartbeats import ProcessHeartbeat

FORGOTTEN_AFTER: Final = timedelta(hours=1)
_FIELDS: Final = ("host", "pid", "started_at", "confirmed_at", "version", "details", "problem")


@transaction.atomic
def record_heartbeat(
    *,
    kind: str,
    name: str,
    host: str = "",
    pid: int | None = None,
    started_at: datetime,
    version: str = "",
    details: dict[str, Any] | None = None,
    now: datetime,
) -> None:
    """Record a heartbeat of a part, with its details."""
    part = ProcessHeartbeat(
        kind=kind,
        name=name,
        host=host,
        pid=pid,
        started_at=started_at,
        confirmed_at=now,
        version=version,
        details=details or {},
    )
    ProcessHeartbeat.objects.bulk_create(
        [part], update_conflicts=True, update_fields=_FIELDS, unique_fields=["kind", "name"]
    )


@transaction.atomic
def record_failed_check(*, kind: str, name: str, problem: str, now: datetime) -> None:
    """Record that a part did not respond; its last heartbeat stays."""
    missed = ProcessHeartbeat.objects.filter(kind=kind, name=name).update(problem=problem)
    if not missed:
        # Without a heartbeat: the placeholder is older than any accepted one.
        ProcessHeartbeat.objects.bulk_create(
            [
                ProcessHeartbeat(
                    kind=kind,
                    name=name,
                    started_at=now,
                    confirmed_at=datetime.min.replace(year=1970, tzinfo=now.tzinfo),
                    problem=problem,
                )
            ],
            ignore_conflicts=True,
        )


@transaction.atomic
def delete_dead_processes(*, host: str, is_alive: Callable[[int], bool]) -> int:
    """Delete the ended processes of one host, as checked on that host; return their number."""
    processes = ProcessHeartbeat.objects.filter(host=host, pid__isnull=False).values_list(
        "pk", "pid"
    )
    dead = [pk for pk, pid in processes if pid is not None and not is_alive(pid)]
    return ProcessHeartbeat.objects.filter(pk__in=dead).delete()[0]


@transaction.atomic
def delete_silent_processes(*, now: datetime) -> int:
    """Delete processes without a heartbeat for an hour; return their number."""
    silent = ProcessHeartbeat.objects.filter(confirmed_at__lt=now - FORGOTTEN_AFTER).exclude(
        kind="ray"
    )
    return silent.delete()[0]
