"""Outages: their begin, their probes and their end."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from rollouts.control.models import FleetWorker, Outage
from rollouts.lessons.rules.failures import probe_wait
from runs.config.rules.failure_budget import Cause
from runs.events.services import record_event
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import MoveNotAllowed, RunStatus, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from web.live.announcements import announce
from web.rules.amounts import duration

ACTOR: Final = "failure budget"
SUCCESSION: Final = timedelta(minutes=10)
"""Time after an outage in which another one counts as its continuation."""


@transaction.atomic
def pause_run(run_id: int, *, cause: Cause, reason: str, now: datetime) -> bool:
    """Pause a run because of an outage; return False if its status no longer allows it."""
    try:
        change_status(run_id=run_id, verb=RunVerb.PAUSE, actor=ACTOR, reason=reason, now=now)
    except MoveNotAllowed:
        return False
    begin_outage(run_id, "", cause=cause, reason=reason, now=now)
    return True


def begin_outage(run_id: int, lesson: str, *, cause: Cause, reason: str, now: datetime) -> None:
    """Record the outage of a run, or of one of its lessons."""
    before = Outage.objects.filter(run_id=run_id, lesson=lesson, ended_at__gte=now - SUCCESSION)
    latest = before.order_by("-pk").values_list("wait_step", flat=True).first()
    step = 0 if latest is None else latest + 1
    Outage.objects.create(
        run_id=run_id,
        lesson=lesson,
        cause=cause,
        reason=reason,
        began_at=now,
        wait_step=step,
        probe_at=now + timedelta(seconds=probe_wait(step)),
    )
    announce(run_id, "run")


def record_probe(outage: Outage, *, now: datetime) -> None:
    """Count a probe, and set the time of the next one."""
    outage.probes += 1
    outage.wait_step += 1
    outage.probe_at = now + timedelta(seconds=probe_wait(outage.wait_step))
    outage.save(update_fields=["probes", "wait_step", "probe_at"])


def end_outage(outage: Outage, reason: str, *, resumes: bool, now: datetime) -> str:
    """End an outage, and resume its run; return the end in words, empty if it had ended before."""
    if not Outage.objects.filter(pk=outage.pk, ended_at=None).update(
        ended_at=now, end_reason=reason
    ):
        return ""
    run_id, lesson = outage.run_id, outage.lesson
    seconds = (now - outage.began_at).total_seconds()
    probes = f"{outage.probes} probe{'' if outage.probes == 1 else 's'}"
    words = f"{reason} after {duration(seconds)} and {probes}"
    record_event(
        run_id=run_id,
        kind="outage_ended",
        message=f"the outage of {f'lesson {lesson}' if lesson else 'the run'} has ended: {words}",
        reason=outage.reason,
        actor=ACTOR,
        details={"lesson": lesson, "cause": outage.cause, "probes": outage.probes},
        now=now,
    )
    if resumes and not lesson:
        with suppress(MoveNotAllowed):
            change_status(run_id=run_id, verb=RunVerb.RESUME, actor=ACTOR, reason=words, now=now)
    announce(run_id, "run")
    return words


def has_recovered(run: Run) -> bool:
    """Return whether a fleet that steps environments does so again during an outage."""
    stepping = FleetWorker.objects.filter(
        fleet__run=run, fleet__observed="running", state="running", env_steps__gt=0
    )
    return run.kind == RunKind.FLEET and run.status == RunStatus.PAUSED and stepping.exists()
