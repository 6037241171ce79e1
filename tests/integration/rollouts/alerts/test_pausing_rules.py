"""A rule with the action `pause` pauses the run for which it raises an alert."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rollouts.metrics.services.metrics import Figure, store_figures
from runs.alerts.models import Alert, AlertRule
from runs.alerts.schemas import NewSnooze, SetAlertRule
from runs.alerts.services import alert_rules, alerts
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db

RULE: dict[str, Any] = {
    "name": "Loss is high",
    "metric": "loss",
    "comparator": "above",
    "threshold": 5.0,
    "action": "pause",
}


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def rule(**fields: Any) -> AlertRule:
    body = SetAlertRule(**{**RULE, **fields})
    return alert_rules.make_rule(body=body, actor="user:ada", now=NOON)


def change(made: AlertRule, *, at: datetime, **fields: Any) -> None:
    body = SetAlertRule(**{**RULE, **fields})
    alert_rules.change_rule(rule_id=made.pk, body=body, actor="user:ada", now=at)


def measure(run: Run, value: float, *, at: datetime) -> None:
    store_figures(run_id=run.pk, figures=[Figure("loss", 1, value)], now=at)


def act(run: Run, verb: RunVerb, *, at: datetime) -> None:
    change_status(run_id=run.pk, verb=verb, actor="user:ada", now=at)


def state_at(seconds: float) -> tuple[list[str], int, int]:
    """Evaluate the rules; return the runs' statuses, and the open and all alerts of rules."""
    alerts.watch(now=after(seconds))
    raised = Alert.objects.filter(kind="rule")
    statuses = Run.objects.order_by("pk").values_list("status", flat=True)
    return list(statuses), raised.filter(cleared_at=None).count(), raised.count()


def test_the_run_is_paused_with_the_alert_that_stays_open_until_it_is_resumed() -> None:
    run = make_run(name="pole")
    rule(for_seconds=60)
    measure(run, 6.0, at=after(0))
    assert state_at(59) == (["running"], 0, 0)

    assert state_at(60) == (["paused"], 1, 1)
    run.refresh_from_db()
    message = "loss of pole is above 5 for 1 min"
    assert (run.status_reason, run.status_changed_at) == (message, after(60))
    event = RunEvent.objects.get(kind="status")
    assert (event.message, event.actor, event.reason) == (
        "running → paused",
        "alert rule:Loss is high",
        message,
    )
    # The trainer still trains on queued data.
    measure(run, 1.0, at=after(70))
    assert state_at(500) == (["paused"], 1, 1)

    act(run, RunVerb.RESUME, at=after(600))
    assert state_at(605) == (["running"], 0, 1)


def test_a_resumed_run_is_paused_again_only_after_the_breach_has_ended_and_returned() -> None:
    run = make_run(name="pole")
    rule()
    measure(run, 6.0, at=after(0))
    state_at(1)

    act(run, RunVerb.RESUME, at=after(100))
    assert state_at(101) == (["running"], 1, 1)
    measure(run, 7.0, at=after(110))
    assert state_at(500) == (["running"], 1, 1)
    measure(run, 1.0, at=after(510))
    assert state_at(511) == (["running"], 0, 1)
    measure(run, 8.0, at=after(520))
    assert state_at(521) == (["paused"], 1, 2)


def test_an_alert_that_a_user_resolved_during_the_pause_does_not_return_with_the_resumption() -> (
    None
):
    run = make_run(name="pole")
    rule()
    measure(run, 6.0, at=after(0))
    state_at(1)
    alerts.resolve(alert_id=Alert.objects.get().pk, actor="user:ada", now=after(50))

    assert state_at(60) == (["paused"], 1, 1)
    act(run, RunVerb.RESUME, at=after(100))
    assert state_at(101) == (["running"], 1, 1)
    assert Alert.objects.get().state == "resolved"


def test_a_missing_metric_pauses_the_run_again_after_the_duration_since_the_resumption() -> None:
    run = make_run(name="pole")
    rule(comparator="no_data", threshold=None, for_seconds=60)
    measure(run, 1.0, at=after(0))
    assert state_at(60) == (["paused"], 1, 1)
    assert state_at(500) == (["paused"], 1, 1)

    act(run, RunVerb.RESUME, at=after(600))
    assert state_at(601) == (["running"], 0, 1)
    assert state_at(660) == (["paused"], 1, 2)


@pytest.mark.parametrize("for_seconds", [0, 60])
def test_samples_from_before_a_start_pause_no_run(for_seconds: int) -> None:
    run = make_run(name="pole", status_changed_at=after(100))
    rule(for_seconds=for_seconds)
    measure(run, 6.0, at=after(0))
    assert state_at(300) == (["running"], 0, 0)

    Run.objects.update(status_changed_at=after(400))
    measure(run, 7.0, at=after(410))
    if for_seconds:
        assert state_at(459) == (["running"], 0, 0)
    assert state_at(460) == (["paused"], 1, 1)


def test_a_draining_run_and_one_that_another_rule_paused_get_the_alert_only() -> None:
    draining = make_run(name="draining", status=RunStatus.DRAINING)
    running = make_run(name="running")
    for run in (draining, running):
        measure(run, 6.0, at=after(0))
    rule()
    rule(name="Loss is very high", threshold=5.5, run="running")

    assert state_at(1) == (["draining", "paused"], 3, 3)
    assert state_at(100) == (["draining", "paused"], 3, 3)
    changes = RunEvent.objects.filter(kind="status").values_list("run__name", "actor")
    assert list(changes) == [("running", "alert rule:Loss is high")]


def test_each_run_of_a_filter_is_paused_by_its_own_breach() -> None:
    runs = [make_run(name=name, tags=["sweep"]) for name in ("one", "two", "good")]
    rule(filter="tag:sweep state:running")
    for run, value in zip(runs, (6.0, 1.0, 1.0), strict=True):
        measure(run, value, at=after(0))
    assert state_at(1) == (["paused", "running", "running"], 1, 1)

    measure(runs[1], 7.0, at=after(10))
    assert state_at(11) == (["paused", "paused", "running"], 2, 2)
    act(runs[0], RunVerb.RESUME, at=after(20))
    assert state_at(21) == (["running", "paused", "running"], 2, 2)


@pytest.mark.parametrize(
    "fields", [{"is_enabled": False}, {"action": "notify"}, {"threshold": 5.5}, {"run": "other"}]
)
def test_a_change_of_the_rule_clears_the_alert_of_a_paused_run(fields: dict[str, Any]) -> None:
    run = make_run(name="pole")
    make_run(name="other")
    made = rule()
    measure(run, 6.0, at=after(0))
    state_at(1)

    change(made, at=after(10), **fields)
    assert state_at(11) == (["paused", "running"], 0, 1)
    # Its samples from before the resumption pause the run no more.
    change(made, at=after(20))
    act(run, RunVerb.RESUME, at=after(30))
    assert state_at(31) == (["running", "running"], 0, 1)


def test_a_deleted_rule_clears_the_alert_of_a_paused_run() -> None:
    run = make_run(name="pole")
    made = rule()
    measure(run, 6.0, at=after(0))
    state_at(1)

    alert_rules.delete_rule(rule_id=made.pk, actor="user:ada", now=after(10))

    assert state_at(11) == (["paused"], 0, 1)


def test_a_rule_that_is_changed_to_pause_applies_to_its_next_alerts() -> None:
    run = make_run(name="pole")
    made = rule(action="notify")
    measure(run, 6.0, at=after(0))
    assert state_at(1) == (["running"], 1, 1)

    change(made, at=after(10))
    assert state_at(11) == (["running"], 1, 1)
    measure(run, 1.0, at=after(20))
    assert state_at(21) == (["running"], 0, 1)
    measure(run, 6.0, at=after(30))
    assert state_at(31) == (["paused"], 1, 2)


def test_a_snoozed_rule_pauses_the_run_without_notifications() -> None:
    run = make_run(name="pole")
    made = rule()
    snooze = NewSnooze(rule=made.pk, reason="a sweep is under way")
    alert_rules.snooze(body=snooze, actor="user:ada", now=NOON)
    measure(run, 6.0, at=after(0))

    assert state_at(1) == (["paused"], 1, 1)
    assert Alert.objects.get().is_held_back


def test_each_pausing_rule_needs_three_queries() -> None:
    for number in range(12):
        measure(make_run(name=f"run-{number}"), 1.0, at=NOON)
    with CaptureQueriesContext(connection) as before:
        alerts.watch(now=NOON)
    for number in range(5):
        rule(name=str(number))
    with CaptureQueriesContext(connection) as with_rules:
        alerts.watch(now=NOON)

    assert len(with_rules) - len(before) <= 3 * 5
