"""Snoozed alerts are shown but not sent until the snooze ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from pytest_django import Settings

from runs.alerts.models import Alert, AlertDelivery, AlertRule, AlertSnooze
from runs.alerts.queries.alert_lists import SnoozeNotFound, alert_summary, snooze_list
from runs.alerts.rules import AlertKind, Condition, InvalidSnooze
from runs.alerts.schemas import NewSnooze, SetAlertRule
from runs.alerts.services import alert_rules, alerts, webhooks
from runs.events.models import RunEvent
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _somebody_hears(settings: Settings) -> None:
    settings.ROLLDECK_ALERT_WEBHOOKS = ["https://hooks.example.org/"]


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def snooze(**fields: Any) -> AlertSnooze:
    given = {"until": after(60), "reason": "we know", **fields}
    return alert_rules.snooze(body=NewSnooze(**given), actor="user:ada", now=NOON)


def raise_one(*, at: datetime = NOON, **fields: Any) -> int:
    condition = Condition(**{"kind": AlertKind.RUN_STALLED, "message": "nothing came", **fields})
    return alerts.raise_alert(condition, now=at)


def snoozed_condition(*, until: datetime | None, **fields: Any) -> None:
    """Snooze a condition that fired before and cleared."""
    alert = raise_one(**fields)
    snooze(alert=alert, until=until)
    alerts.clear([alert], now=NOON)
    AlertDelivery.objects.all().delete()


def make_rule(**fields: Any) -> AlertRule:
    rule = SetAlertRule(
        **{"name": "loss", "metric": "loss", "comparator": "above", "threshold": 1.0, **fields}
    )
    return alert_rules.make_rule(body=rule, actor="user:ada", now=NOON)


def deliveries() -> list[str]:
    return list(AlertDelivery.objects.order_by("pk").values_list("change", flat=True))


def test_a_snoozed_alert_notifies_only_of_its_resolution() -> None:
    alert = raise_one(run_id=make_run(name="pole").pk)
    snooze(alert=alert)
    alerts.acknowledge(alert_id=alert, actor="user:ada", now=after(1))
    alerts.clear([alert], now=after(2))

    assert deliveries() == ["raised", "resolved"]
    assert Alert.objects.get().state == "resolved"


@pytest.mark.parametrize("until", [after(10), None])
def test_a_snooze_covers_a_condition_that_returns_and_ends_with_one_notification(
    until: datetime | None,
) -> None:
    snoozed_condition(until=until)
    alert = raise_one()

    assert webhooks.deliver_held_back(now=after(9)) == 0
    if until is None:
        assert webhooks.deliver_held_back(now=after(60 * 24 * 365)) == 0
        made = AlertSnooze.objects.get()
        alert_rules.end_snooze(snooze_id=made.pk, actor="user:bob", reason="back", now=after(10))
    assert [webhooks.deliver_held_back(now=after(11)) for _ in range(2)] == [1, 0]
    alerts.clear([alert], now=after(12))
    assert deliveries() == ["raised", "resolved"]


def test_alerts_that_resolve_during_a_snooze_never_notify() -> None:
    snoozed_condition(until=after(10))
    alerts.clear([raise_one()], now=after(5))

    assert webhooks.deliver_held_back(now=after(11)) == 0
    assert deliveries() == []


def test_a_snooze_applies_to_its_alert_only() -> None:
    one, other = make_run(name="one"), make_run(name="other")
    snoozed_condition(until=after(10), run_id=one.pk)
    for run in (one, other):
        raise_one(run_id=run.pk)
    raise_one(kind=AlertKind.DISK_LOW)

    delivered = AlertDelivery.objects.values_list("alert__kind", "alert__run__name")
    assert set(delivered) == {("run_stalled", "other"), ("disk_low", None)}


def test_a_rule_is_snoozed_in_all_runs_and_its_snooze_goes_with_it() -> None:
    rule, other = make_rule(), make_rule(name="entropy")
    snooze(rule=rule.pk)
    for run in (make_run(name="one"), make_run(name="other")):
        raise_one(kind=AlertKind.RULE, subject=str(rule.pk), run_id=run.pk)
    raise_one(kind=AlertKind.RULE, subject=str(other.pk))

    assert [row.alert.subject for row in AlertDelivery.objects.all() if row.alert] == [
        str(other.pk)
    ]
    assert alert_summary(now=NOON).snoozed == 2
    alert_rules.delete_rule(rule_id=rule.pk, actor="user:ada", now=NOON)
    assert not AlertSnooze.objects.exists()


def test_a_second_snooze_replaces_the_first_and_the_list_has_the_subjects() -> None:
    rule, alert = make_rule(), raise_one(run_id=make_run(name="pole").pk)
    snooze(alert=alert, until=after(5))
    snooze(alert=alert, until=None, reason="known since May")
    snooze(rule=rule.pk)

    rows = snooze_list(now=after(1)).results
    assert [(row.title, row.alert, row.rule, row.run, row.until) for row in rows] == [
        ("No new data", alert, None, "pole", None),
        ("loss", None, rule.pk, None, after(60)),
    ]
    assert rows[0].reason == "known since May"
    assert [row.rule for row in snooze_list(now=after(61)).results] == [None]
    alerts.delete_old_alerts(now=after(61))
    assert AlertSnooze.objects.count() == 1


def test_a_snooze_ends_before_its_time_once() -> None:
    made = snooze(alert=raise_one())

    alert_rules.end_snooze(snooze_id=made.pk, actor="user:bob", reason="back", now=after(1))

    with pytest.raises(SnoozeNotFound):
        alert_rules.end_snooze(snooze_id=made.pk, actor="user:bob", now=after(3))
    kinds = RunEvent.objects.filter(kind__startswith="alert_snooze").order_by("pk")
    assert list(kinds.values_list("kind", "actor", "reason")) == [
        ("alert_snooze_made", "user:ada", "we know"),
        ("alert_snooze_ended", "user:bob", "back"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"alert": 1, "until": NOON}, "until"),
        ({"alert": 1, "until": NOON + timedelta(days=31)}, "until"),
        ({"alert": 1, "until": datetime(2026, 3, 1, 13)}, "until"),  # noqa: DTZ001 naive times are refused
        ({}, "alert"),
        ({"alert": 1, "rule": 1}, "alert"),
        ({"alert": 1}, "alert"),
        ({"rule": 1}, "rule"),
    ],
)
def test_an_invalid_snooze_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSnooze) as refused:
        snooze(**fields)

    assert refused.value.field == field
    assert not AlertSnooze.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_silences_of_earlier_versions_become_snoozes() -> None:
    one, other = make_run(name="one"), make_run(name="other")
    rule, of_one = make_rule(), make_rule(name="entropy", run="one")
    stalled = [raise_one(run_id=run.pk) for run in (one, other)]
    ruled = [
        raise_one(kind=AlertKind.RULE, subject=str(rule.pk), run_id=run.pk) for run in (one, other)
    ]
    raise_one(kind=AlertKind.DISK_LOW)
    now, hour = datetime.now(UTC), timedelta(hours=1)
    earlier = [("runs", "0009_no_saved_comparisons")]
    silences = (
        {"kind": "run_stalled", "run_id": one.pk},
        {"kind": "rule", "rule_id": of_one.pk},
        {"kind": "rule", "rule_id": rule.pk, "run_id": other.pk},
        {"kind": "disk_low", "until": now - hour},
        {"kind": "disk_low", "ended_at": now},
    )
    kept = {"until": now + hour, "reason": "r", "created_at": now, "created_by": "a"}
    before = MigrationExecutor(connection)
    before.migrate(earlier)
    try:
        model = before.loader.project_state(earlier).apps.get_model("runs", "AlertSilence")
        for fields in silences:
            model.objects.create(**kept | fields)
    finally:
        forward = MigrationExecutor(connection)
        forward.migrate(forward.loader.graph.leaf_nodes())

    made = AlertSnooze.objects.values_list("alert", "rule", "run")
    assert set(made) == {
        (stalled[0], None, one.pk),
        (None, of_one.pk, one.pk),
        (ruled[1], rule.pk, other.pk),
    }
