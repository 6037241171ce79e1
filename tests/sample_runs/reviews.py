"""Marks, notes, presets, a project and alerts on the sample runs."""

from datetime import datetime, timedelta
from typing import Final

from buffer.inspect.rules.marks import MarkChange
from buffer.inspect.services import mark_groups
from buffer.items.models import TrajectoryGroup
from runs.alerts.models import Alert
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.schemas import NewSnooze, SetAlertRule
from runs.alerts.services import alert_rules, alerts
from runs.config.services import save_preset
from runs.lifecycle.models import Run
from runs.lifecycle.services.settings import change_settings, write_notes
from runs.projects.services import create_project
from tests.sample_runs import texts
from tests.sample_runs.timeline import ACTOR, PREFIX, owner

LIVE: Final = f"{PREFIX}cartpole-live"
MIXED: Final = f"{PREFIX}atropos-mix"
PROJECT: Final = f"{PREFIX}poles"
_LESSONS: Final = """\
**Baseline** for the reversal lessons; compare everything with this one.

| lesson | graduated after |
|---|---|
| reverse-4-letters | 25 train steps |

- [x] rehearsal at 0.2

Next: see [the sweep](/runs?q=tag:sweep).
"""
_HOSTILE: Final = (
    f"# {texts.MARKUP}\n\n{texts.DECEPTIVE} [a link](javascript:alert(1)) ![](https://x/)"
)


def write(*, now: datetime) -> None:
    """Write notes, one with an edit, a preset, a project, marks and alerts."""
    _note("reverse-lessons", "Baseline.", revision=0, at=now - timedelta(hours=4))
    _note("reverse-lessons", _LESSONS, revision=1, at=now - timedelta(hours=2))
    _note("hostile-text", _HOSTILE, revision=0, at=now - timedelta(minutes=20))
    save_preset(
        name=f"{PREFIX}four-workers",
        description="CartPole on four workers, as in the sweep",
        access="open",
        config={"fleet": {"num_workers": 4, "envs_per_worker": 8}, "buffer": {"batch_size": 32}},
        person=owner(),
        actor=ACTOR,
        now=now - timedelta(days=3),
    )
    _project(now=now - timedelta(days=2))
    _marks(now=now)
    _alerts(now=now)


def _note(name: str, text: str, *, revision: int, at: datetime) -> None:
    run = Run.objects.current().get(name=f"{PREFIX}{name}")
    write_notes(run_id=run.pk, text=text, revision=revision, actor=ACTOR, now=at)


def _project(*, now: datetime) -> None:
    create_project(
        name=PROJECT,
        title="Balance a pole",
        description="Step runs on CartPole, compared by return.",
        defaults={"preset": "cartpole", "config": {"seed": 7}, "tags": ["sweep"]},
        actor=ACTOR,
        now=now,
    )
    for name in (LIVE, f"{PREFIX}cartpole-paused"):
        run = Run.objects.current().get(name=name)
        change_settings(run_id=run.pk, changes={"project": PROJECT}, actor=ACTOR, now=now)


def _marks(*, now: datetime) -> None:
    """Tag and annotate some groups."""
    run_id = Run.objects.current().get(name=MIXED).pk
    stored = TrajectoryGroup.objects.filter(run=run_id, segment__isnull=False).order_by("-pk")
    groups = list(stored.values_list("pk", flat=True)[:12])
    changes = [
        (groups[1:3], MarkChange(add_tags=frozenset({"good"}))),
        (groups[4:8], MarkChange(add_tags=frozenset({"reward hack"}))),
        (groups[9:10], MarkChange(add_tags=frozenset({"format broken", "long"}))),
        (groups[4:5], MarkChange(note="The answer is right, the work is not.")),
    ]
    for some, change in changes:
        mark_groups(run_id=run_id, group_ids=some, change=change, actor=ACTOR, now=now)


def _alerts(*, now: datetime) -> None:
    """Leave a resolved, an acknowledged and open alerts, a snoozed rule that does not fire."""
    at = now - timedelta(days=2)
    alert_id = _corrupt("atropos-mix", "3 items of batch 2 were corrupt", at=at)
    solved, reason = at + timedelta(hours=1), "the disk was replaced"
    alerts.resolve(alert_id=alert_id, actor=ACTOR, reason=reason, now=solved)
    _corrupt("hostile-text", f"{texts.MARKUP} {texts.DECEPTIVE}", at=now - timedelta(minutes=30))
    body = SetAlertRule(
        name="Value loss is not a number",
        metric="value_loss",
        comparator="not_finite",
        severity="error",
        runbook="Stop the run, and start it again from the last weights with half the rate.",
        run=LIVE,
        reason="it diverged twice last month",
    )
    rule = alert_rules.make_rule(body=body, actor=ACTOR, now=now)
    until, reason = now + timedelta(days=7), "the new optimiser is being tried out"
    alert_rules.snooze(
        body=NewSnooze(rule=rule.pk, until=until, reason=reason), actor=ACTOR, now=now
    )
    failed = None
    while failed is None:
        # Another process may be evaluating the alerts; it then does so alone.
        alerts.watch(now=now)
        found = Alert.objects.filter(kind=AlertKind.RUN_FAILED, run__name__startswith=PREFIX)
        failed = found.first()
    reason = "the cluster lost a node; starting it again tonight"
    alerts.acknowledge(alert_id=failed.pk, actor=ACTOR, reason=reason, now=now)


def _corrupt(name: str, message: str, *, at: datetime) -> int:
    run = Run.objects.current().get(name=f"{PREFIX}{name}")
    condition = Condition(kind=AlertKind.ITEMS_CORRUPT, run_id=run.pk, message=message)
    return alerts.raise_alert(condition, now=at)
