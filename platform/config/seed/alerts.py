"""Let a seeded deck have alerts of every state: what is wrong with it now, and what once was."""

from datetime import datetime, timedelta

from config.seed import texts
from config.seed.scale import ACTOR, PREFIX
from runs.core.alerts import AlertKind, Condition
from runs.models import Alert, Run
from runs.services import alerts, conditions


def write(*, now: datetime) -> None:
    """Tell of corrupt bytes of two days ago, raise what holds, and have somebody at one of it."""
    at = now - timedelta(days=2)
    alert_id = _corrupt("atropos-mix", "3 items of batch 2 were corrupt", at=at)
    solved, reason = at + timedelta(hours=1), "the disk was replaced"
    alerts.resolve(alert_id=alert_id, actor=ACTOR, reason=reason, now=solved)
    _corrupt("hostile-text", f"{texts.MARKUP} {texts.DECEIT}", at=now - timedelta(minutes=30))
    conditions.watch(now=now)
    failed = Alert.objects.filter(kind=AlertKind.RUN_FAILED, run__name__startswith=PREFIX).first()
    if failed is not None:
        reason = "the cluster lost a node; starting it again tonight"
        alerts.acknowledge(alert_id=failed.pk, actor=ACTOR, reason=reason, now=now)


def _corrupt(name: str, message: str, *, at: datetime) -> int:
    run = Run.objects.current().get(name=f"{PREFIX}{name}")
    condition = Condition(kind=AlertKind.ITEMS_CORRUPT, run_id=run.pk, message=message)
    return alerts.raise_alert(condition, now=at)
