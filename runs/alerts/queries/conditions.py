"""Alert conditions of runs: failed, not starting, differing trainers, unbalanced ledger."""

from datetime import datetime, timedelta
from typing import Final

from runs.alerts.rules.alerts import SEEN_AT_MOST, AlertKind, Condition
from runs.events.models import RunEvent
from runs.lifecycle.models.runs import Run, Trainer
from runs.lifecycle.rules.lifecycle import ACTIVE, RunStatus
from runs.lifecycle.rules.registration import describe_differences
from runs.lifecycle.services.waiting_environments import waiting_environments

STARTS_WITHIN: Final = timedelta(minutes=3)
_MINUTES: Final = int(STARTS_WITHIN.total_seconds() // 60)
_COLUMNS: Final = ("pk", "name", "status", "status_reason")


def failed_runs(_now: datetime) -> list[Condition]:
    """Return the failed runs that were neither restarted nor archived."""
    failed = Run.objects.current().filter(status=RunStatus.FAILED).order_by("-pk")
    return [
        Condition(
            kind=AlertKind.RUN_FAILED,
            run_id=run_id,
            message=_with_reason(f"{name} failed", reason),
        )
        for run_id, name, _, reason in failed.values_list(*_COLUMNS)[:SEEN_AT_MOST]
    ]


def runs_not_starting(now: datetime) -> list[Condition]:
    """Return the runs whose fleet or trainer does not start within :data:`STARTS_WITHIN`."""
    waiting = Run.objects.current().filter(
        status__in=[RunStatus.QUEUED, RunStatus.STARTING],
        status_changed_at__lt=now - STARTS_WITHIN,
    )
    return [
        Condition(
            kind=AlertKind.RUN_NOT_STARTING,
            run_id=run.pk,
            message=_of_outside_run(run, now=now) if not run.has_fleet else _of_fleet(run),
        )
        for run in waiting.order_by("-pk")[:SEEN_AT_MOST]
    ]


def _of_outside_run(run: Run, *, now: datetime) -> str:
    names = ", ".join(waiting_environments(run, now=now))
    return f"{run.name} has waited for its trainer for more than {_MINUTES} min" + (
        f"; waiting environments: {names}" if names else ""
    )


def _of_fleet(run: Run) -> str:
    """Return the state of a run, and why: its own reason, or that its weights were refused."""
    refusals = RunEvent.objects.filter(
        run=run, kind="weights_refused", at__gte=run.status_changed_at
    )
    newest = refusals.order_by("-id").values_list("message", flat=True).first()
    return _with_reason(
        f"{run.name} has been {run.status} for more than {_MINUTES} min",
        run.status_reason or newest or "",
    )


def differing_registrations(_now: datetime) -> list[Condition]:
    """Return the trainers of active runs that registered with other settings than the run's."""
    trainers = Trainer.objects.filter(
        run__archived_at=None, run__status__in=ACTIVE, differences__isnull=False
    )
    return [
        Condition(
            kind=AlertKind.REGISTRATION_DIFFERS,
            run_id=trainer.run_id,
            subject=str(trainer.pk),
            message=f"{trainer.name or trainer.identity} registered with "
            + describe_differences(trainer.differences or {}),
        )
        for trainer in trainers.order_by("-pk")[:SEEN_AT_MOST]
    ]


def unbalanced_ledgers(_now: datetime) -> list[Condition]:
    """Return the runs whose counters differ from their rows."""
    wrong = Run.objects.exclude(ledger_problem="").order_by("-pk")
    return [
        Condition(
            kind=AlertKind.LEDGER_UNBALANCED,
            run_id=run_id,
            message=_with_reason(f"the ledger of {name} does not balance", problem),
        )
        for run_id, name, problem in wrong.values_list("pk", "name", "ledger_problem")[
            :SEEN_AT_MOST
        ]
    ]


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
