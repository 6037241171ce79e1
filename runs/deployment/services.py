"""Record heartbeats and exits of processes, and the notice to all users."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from runs.deployment.models import PartExit, ProcessHeartbeat, ServerNotice
from runs.deployment.schemas import SetNotice
from runs.events.services import record_event
from web.live.announcements import NO_RUN, announce

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


SERIES_ENDS_AFTER: Final = timedelta(hours=1)
LOG_LENGTH: Final = 4000


@transaction.atomic
def record_exit(*, host: str, part: str, reason: str, log: str, now: datetime) -> PartExit:
    """Record an exit; an hour without one begins a new series."""
    known = PartExit.objects.select_for_update().filter(host=host, part=part).first()
    goes_on = known is not None and now - known.last_at < SERIES_ENDS_AFTER
    values = {
        "exits": known.exits + 1 if known and goes_on else 1,
        "first_at": known.first_at if known and goes_on else now,
        "last_at": now,
        "reason": _text(reason),
        "log": _text(log)[-LOG_LENGTH:],
    }
    return PartExit.objects.update_or_create(host=host, part=part, defaults=values)[0]


def _text(words: str) -> str:
    """Return a text that PostgreSQL stores: without NUL."""
    return words.replace("\0", "\ufffd")


@transaction.atomic
def set_notice(*, body: SetNotice, actor: str, now: datetime) -> None:
    """Set the notice, replacing the previous one."""
    fields = {"text": body.text, "reason": body.reason, "until": body.until}
    ServerNotice.objects.update_or_create(id=1, defaults={**fields, "set_by": actor, "set_at": now})
    record_event(
        run_id=None,
        kind="notice_set",
        message=f"notice set: {body.text}",
        actor=actor,
        reason=body.reason,
        details={"until": body.until.isoformat()} if body.until else {},
        now=now,
    )
    announce(NO_RUN, "me")


@transaction.atomic
def clear_notice(*, reason: str, actor: str, now: datetime) -> None:
    """Clear the notice, if there is one."""
    if ServerNotice.objects.all().delete()[0]:
        message = "notice cleared"
        record_event(
            run_id=None, kind="notice_cleared", message=message, actor=actor, reason=reason, now=now
        )
        announce(NO_RUN, "me")
