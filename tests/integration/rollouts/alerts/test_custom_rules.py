"""A custom rule raises an alert after its condition has lasted long enough."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rollouts.metrics.services.metrics import Figure, pack_metrics, store_figures
from runs.alerts.models import Alert, AlertRule
from runs.alerts.queries.alert_lists import alert_page
from runs.alerts.schemas import SetAlertRule
from runs.alerts.services import alert_rules
from runs.alerts.services import alerts as services_alerts
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from tests.factories import NOON, make_run
from web.rules.pages import PageRequest

pytestmark = pytest.mark.django_db


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def rule(**fields: Any) -> AlertRule:
    given = {"name": "Loss is high", "metric": "loss", "comparator": "above", "threshold": 5.0}
    body = SetAlertRule(**{**given, **fields})
    return alert_rules.make_rule(body=body, actor="user:ada", now=NOON)


def measure(run: Run, value: float, *, at: datetime, name: str = "loss") -> None:
    store_figures(run_id=run.pk, figures=[Figure(name, 1, value)], now=at)


def open_alerts() -> set[tuple[str | None, str]]:
    alerts = Alert.objects.filter(kind="rule", cleared_at=None).values_list("run__name", "message")
    return {(run, message) for run, message in alerts}


def test_an_alert_fires_after_its_duration_and_resolves_with_the_first_good_sample() -> None:
    run = make_run(name="pole")
    made = rule(for_seconds=60, severity="error", runbook="Lower the learning rate.")
    measure(run, 6.0, at=after(0))
    measure(run, 7.0, at=after(50))

    assert services_alerts.watch(now=after(59)) == 0
    assert services_alerts.watch(now=after(60)) == 1
    alert = Alert.objects.get()
    assert (alert.kind, alert.severity, alert.subject) == ("rule", "error", str(made.pk))
    assert alert.message == "loss of pole is above 5 for 1 min"
    (row,) = alert_page(PageRequest(limit=5), filters={}, now=NOON).results
    assert (row.title, row.advice, row.metric) == (
        "Loss is high",
        "Lower the learning rate.",
        "loss",
    )

    measure(run, 5.0, at=after(65))
    assert services_alerts.watch(now=after(66)) == 1
    alert.refresh_from_db()
    assert (alert.state, alert.resolved_by) == ("resolved", "platform")


def test_one_good_sample_restarts_the_duration() -> None:
    run = make_run(name="pole")
    rule(for_seconds=60)
    for at, value in [(0, 6.0), (30, 5.0), (31, 6.0)]:
        measure(run, value, at=after(at))

    assert services_alerts.watch(now=after(90)) == 0
    assert services_alerts.watch(now=after(91)) == 1


def test_a_rule_for_each_environment_names_those_beyond_its_limit() -> None:
    run, other = make_run(name="pole"), make_run(name="other")
    rule(name="Unsolved", metric="env/*/solved", comparator="below", threshold=0.5)
    for name, value in [("math", 0.1), ("code", 0.9), ("a/b", 0.2), ("c.d", 0.3), ("e", 0.4)]:
        measure(run, value, at=after(0), name=f"env/{name}/solved")
    measure(run, 0.1, at=after(0), name="env/math/solved/low")
    measure(run, 0.1, at=after(0), name="xenv/math/solved")
    measure(other, 0.7, at=after(0), name="env/math/solved")

    assert services_alerts.watch(now=after(1)) == 1
    names = "env/a/b/solved, env/c.d/solved, env/e/solved"
    assert open_alerts() == {("pole", f"{names} and 1 more of pole is below 0.5")}
    for name in ("math", "a/b", "c.d"):
        measure(run, 0.8, at=after(2), name=f"env/{name}/solved")
    services_alerts.watch(now=after(3))
    assert open_alerts() == {("pole", "env/e/solved of pole is below 0.5")}
    measure(run, 0.8, at=after(4), name="env/e/solved")
    services_alerts.watch(now=after(5))
    assert open_alerts() == set()


def test_packed_samples_count_too() -> None:
    run = make_run(name="pole")
    made = rule(for_seconds=600)
    figures = [Figure("loss", step, 9.0) for step in range(1400)]
    for minute in range(12):
        store_figures(
            run_id=run.pk,
            figures=figures[minute * 117 : minute * 117 + 117],
            now=after(60 * minute),
        )
    now = after(60 * 11 + 61)
    assert pack_metrics(now=now) > 0

    services_alerts.watch(now=now)

    alert = Alert.objects.get(kind="rule")
    assert (alert.details["since"], alert.subject) == (NOON.isoformat(), str(made.pk))


def test_a_rule_applies_to_active_runs_of_its_filter() -> None:
    for name, fields in {
        "one": {"tags": ["ablation"]},
        "two": {"tags": ["ablation"], "status": RunStatus.PAUSED},
        "three": {},
    }.items():
        measure(make_run(name=name, **fields), 9.0, at=NOON)
    rule(filter="tag:ablation")
    services_alerts.watch(now=NOON)
    assert open_alerts() == {("one", "loss of one is above 5")}

    Run.objects.filter(name="two").update(status=RunStatus.RUNNING)
    Run.objects.filter(name="one").update(status=RunStatus.COMPLETED)
    services_alerts.watch(now=after(5))
    assert open_alerts() == {("two", "loss of two is above 5")}


def test_a_loss_that_is_not_a_number_raises_an_alert() -> None:
    run = make_run(name="pole")
    rule(comparator="not_finite", threshold=None, run="pole")
    rule(name="low", comparator="below", threshold=5.0)
    measure(run, float("nan"), at=NOON)

    services_alerts.watch(now=NOON)

    assert open_alerts() == {("pole", "loss of pole is not finite")}


def test_a_silent_metric_raises_an_alert_until_it_returns() -> None:
    run, _silent = make_run(name="pole"), make_run(name="never-measured")
    made = rule(name="silent", comparator="no_data", threshold=None, for_seconds=60)
    measure(run, 1.0, at=after(0))

    assert services_alerts.watch(now=after(59)) == 0
    assert services_alerts.watch(now=after(60)) == 1
    assert open_alerts() == {("pole", "loss of pole is without data for 1 min")}
    alert = Alert.objects.get()
    assert (alert.subject, alert.details["since"]) == (str(made.pk), NOON.isoformat())

    measure(run, 1.0, at=after(70))
    services_alerts.watch(now=after(71))
    assert open_alerts() == set()


def test_a_resumed_run_has_a_grace_period() -> None:
    run = make_run(name="pole", status=RunStatus.PAUSED)
    rule(comparator="no_data", threshold=None, for_seconds=60)
    measure(run, 1.0, at=after(0))
    assert services_alerts.watch(now=after(500)) == 0

    Run.objects.update(status=RunStatus.RUNNING, status_changed_at=after(500))

    assert services_alerts.watch(now=after(559)) == 0
    assert services_alerts.watch(now=after(560)) == 1


def test_a_disabled_changed_or_deleted_rule_resolves_its_alerts() -> None:
    measure(make_run(name="pole"), 9.0, at=NOON)
    made = rule()
    services_alerts.watch(now=NOON)
    body = SetAlertRule(
        name="Loss is high", metric="loss", comparator="above", threshold=5.0, is_enabled=False
    )
    alert_rules.change_rule(rule_id=made.pk, body=body, actor="user:bob", now=NOON)
    assert services_alerts.watch(now=after(5)) == 1
    assert open_alerts() == set()

    again = rule(name="again")
    services_alerts.watch(now=after(10))
    alert_rules.delete_rule(rule_id=again.pk, actor="user:bob", reason="noise", now=NOON)
    services_alerts.watch(now=after(15))
    assert open_alerts() == set()
    kinds = list(
        RunEvent.objects.filter(kind__startswith="alert_rule")
        .order_by("pk")
        .values_list("kind", "reason")
    )
    assert kinds == [
        ("alert_rule_made", ""),
        ("alert_rule_disabled", ""),
        ("alert_rule_made", ""),
        ("alert_rule_deleted", "noise"),
    ]


def test_each_rule_needs_two_queries() -> None:
    for number in range(12):
        measure(make_run(name=f"run-{number}"), 1.0, at=NOON)
    with CaptureQueriesContext(connection) as before:
        services_alerts.watch(now=NOON)
    for number in range(5):
        rule(name=str(number))
    with CaptureQueriesContext(connection) as with_rules:
        services_alerts.watch(now=NOON)

    assert len(with_rules) - len(before) <= 2 * 5
    assert open_alerts() == set()
