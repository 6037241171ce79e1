"""Alert conditions of runs: failed, differing trainers, unbalanced ledger."""

from datetime import datetime
from typing import Final

from runs.alerts.rules import SEEN_AT_MOST, AlertKind, Condition
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import ACTIVE, RunStatus, describe_differences

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
