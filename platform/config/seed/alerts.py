"""Sample alerts of every state: active, acknowledged, resolved and silenced."""

from datetime import datetime, timedelta

from config.seed import texts
from config.seed.scale import ACTOR, PREFIX
from runs.alerts.models.alerts import Alert
from runs.alerts.rules.alerts import AlertKind, Condition
from runs.alerts.schemas.alert_rules import NewSilence, SetAlertRule
from runs.alerts.services import alert_rules, alerts, conditions, silences
from runs.lifecycle.models.runs import Run


def write(*, now: datetime) -> None:
    """Raise and resolve an old alert, raise the current ones, and acknowledge one of them."""
    at = now - timedelta(days=2)
    alert_id = _corrupt("atropos-mix", "3 items of batch 2 were corrupt", at=at)
    solved, reason = at + timedelta(hours=1), "the disk was replaced"
    alerts.resolve(alert_id=alert_id, actor=ACTOR, reason=reason, now=solved)
    _corrupt("hostile-text", f"{texts.MARKUP} {texts.DECEPTIVE}", at=now - timedelta(minutes=30))
    _rule(now=now)
    conditions.watch(now=now)
    failed = Alert.objects.filter(kind=AlertKind.RUN_FAILED, run__name__startswith=PREFIX).first()
    if failed is not None:
        reason = "the cluster lost a node; starting it again tonight"
        alerts.acknowledge(alert_id=failed.pk, actor=ACTOR, reason=reason, now=now)


def _corrupt(name: str, message: str, *, at: datetime) -> int:
    run = Run.objects.current().get(name=f"{PREFIX}{name}")
    condition = Condition(kind=AlertKind.ITEMS_CORRUPT, run_id=run.pk, message=message)
    return alerts.raise_alert(condition, now=at)


def _rule(*, now: datetime) -> None:
    """Create a rule that does not fire, and a silence of its run for a week."""
    name = f"{PREFIX}cartpole-live"
    body = SetAlertRule(
        name="Value loss is not a number",
        metric="value_loss",
        comparator="not_finite",
        severity="error",
        runbook="Stop the run, and start it again from the last weights with half the rate.",
        run=name,
        reason="it diverged twice last month",
    )
    rule = alert_rules.make_rule(body=body, actor=ACTOR, now=now)
    silence = NewSilence(
        kind="rule",
        rule=rule.pk,
        run=name,
        until=now + timedelta(days=7),
        reason="the new optimiser is being tried out",
    )
    silences.silence(body=silence, actor=ACTOR, now=now)
