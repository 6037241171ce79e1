"""Archive, unarchive and tag runs."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction

from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import TERMINAL, MoveNotAllowed, RunStatus
from runs.lifecycle.services.lifecycle import RunExists, open_epoch
from web.live.announcements import announce
from web.rules.tags import checked

ARCHIVABLE: Final = frozenset({*TERMINAL, RunStatus.DRAFT})


@transaction.atomic
def archive(*, run_id: int, actor: str, reason: str = "", now: datetime) -> Run:
    """Archive an ended or unstarted run; nothing is deleted.

    This frees its name.

    Raises:
        RunNotFound: If there is no such current run.
        MoveNotAllowed: If the run is active.
    """
    changed = Run.objects.filter(
        pk=run_id, archived_at=None, is_default=False, status__in=ARCHIVABLE
    ).update(archived_at=now)
    if not changed:
        run = _current(run_id)
        if run.is_default:
            raise MoveNotAllowed(f"{run.name} is the run at the server root: reset it instead")
        raise MoveNotAllowed(
            f"{run.name} is {run.status}: only ended runs and drafts can be archived"
        )
    record_event(
        run_id=run_id, kind="archived", message="archived", actor=actor, reason=reason, now=now
    )
    announce(run_id, "run")
    return Run.objects.get(pk=run_id)


@transaction.atomic
def unarchive(*, run_id: int, actor: str, reason: str = "", now: datetime) -> Run:
    """Restore an archived run to the lists.

    An epoch is opened if another run of its name has had a trainer since: a server with the
    weights of that run would never load the earlier versions of this one.

    Raises:
        RunNotFound: If there is no such archived run.
        RunExists: If a current run has its name.
    """
    try:
        with transaction.atomic():
            changed = Run.objects.filter(pk=run_id, archived_at__isnull=False).update(
                archived_at=None
            )
    except IntegrityError as error:
        raise RunExists("a current run has its name") from error
    if not changed:
        raise RunNotFound(f"no archived run with id {run_id}")
    record_event(
        run_id=run_id,
        kind="unarchived",
        message="unarchived",
        actor=actor,
        reason=reason,
        now=now,
    )
    run = Run.objects.get(pk=run_id)
    if run.epoch and Run.objects.filter(name=run.name, epoch__gte=run.epoch).exclude(pk=run.pk):
        open_epoch(run, actor=actor, now=now)
    announce(run_id, "run")
    return run


@transaction.atomic
def set_tags(
    *, run_id: int, tags: Iterable[str], actor: str, reason: str = "", now: datetime
) -> Run:
    """Replace the tags of a run, which may have ended.

    Raises:
        RunNotFound: If there is no such current run.
        InvalidTag: If a tag is invalid.
    """
    checked_tags = checked(tags)
    run = _current(run_id, lock=True)
    if run.tags == checked_tags:
        return run
    before, run.tags = run.tags, checked_tags
    run.save(update_fields=["tags"])
    record_event(
        run_id=run_id,
        kind="tagged",
        message=f"tags: {', '.join(checked_tags) or 'none'}",
        actor=actor,
        reason=reason,
        details={"tags": {"before": before, "after": checked_tags}},
        now=now,
    )
    announce(run_id, "run")
    return run


def _current(run_id: int, *, lock: bool = False) -> Run:
    found = Run.objects.current()
    if lock:
        found = found.select_for_update(no_key=True)
    run = found.filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
    return run
