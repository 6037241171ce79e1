"""Silenced alerts are shown but not sent until the silence ends."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from runs.alerts.models import Alert, AlertDelivery, AlertSilence
from runs.alerts.queries.alert_lists import SilenceNotFound
from runs.alerts.rules import AlertKind, Condition, InvalidSilence
from runs.alerts.schemas import NewSilence
from runs.alerts.services import alert_rules, alerts, webhooks
from runs.events.models import RunEvent
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _somebody_hears(settings: Settings) -> None:
    settings.ROLLDECK_ALERT_WEBHOOKS = ["https://hooks.example.org/"]


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def silence(**fields: Any) -> AlertSilence:
    given = {"kind": "run_stalled", "until": after(60), "reason": "we know", **fields}
    return alert_rules.silence(body=NewSilence(**given), actor="user:ada", now=NOON)


def raise_one(*, at: datetime = NOON, **fields: Any) -> int:
    condition = Condition(**{"kind": AlertKind.RUN_STALLED, "message": "nothing came", **fields})
    return alerts.raise_alert(condition, now=at)


def deliveries() -> list[str]:
    return list(AlertDelivery.objects.order_by("pk").values_list("change", flat=True))


def test_a_silenced_alert_is_listed_and_notifies_no_channel() -> None:
    silence()
    run = make_run(name="pole")
    alert = raise_one(run_id=run.pk)
    alerts.acknowledge(alert_id=alert, actor="user:ada", now=after(1))
    alerts.clear([alert], now=after(2))

    assert deliveries() == []
    assert Alert.objects.get().state == "resolved"


def test_alerts_that_are_open_after_a_silence_notify_once() -> None:
    silence(until=after(10))
    alert = raise_one()

    assert webhooks.deliver_held_back(now=after(9)) == 0
    assert [webhooks.deliver_held_back(now=after(11)) for _ in range(2)] == [1, 0]
    alerts.clear([alert], now=after(12))
    assert deliveries() == ["raised", "resolved"]


def test_alerts_that_resolve_during_a_silence_never_notify() -> None:
    silence(until=after(10))
    alert = raise_one()
    alerts.clear([alert], now=after(5))

    assert webhooks.deliver_held_back(now=after(11)) == 0
    assert deliveries() == []


def test_a_silence_applies_to_its_kind_and_its_run_only() -> None:
    one, other = make_run(name="one"), make_run(name="other")
    silence(run="one")
    for run in (one, other):
        raise_one(run_id=run.pk)
    raise_one(kind=AlertKind.DISK_LOW)

    delivered = AlertDelivery.objects.values_list("alert__kind", "alert__run__name")
    assert set(delivered) == {("run_stalled", "other"), ("disk_low", None)}


def test_a_silence_ends_before_its_time_and_the_next_evaluation_notifies() -> None:
    made = silence()
    alert = raise_one()
    assert deliveries() == []

    ended = alert_rules.end_silence(
        silence_id=made.pk, actor="user:bob", reason="back", now=after(1)
    )
    Alert.objects.filter(pk=alert).update(kind=AlertKind.ITEMS_CORRUPT)  # no check clears it
    alerts.watch(now=after(2))

    assert (ended.ended_at, ended.ended_by) == (after(1), "user:bob")
    assert deliveries() == ["raised"]
    with pytest.raises(SilenceNotFound):
        alert_rules.end_silence(silence_id=made.pk, actor="user:bob", now=after(3))
    kinds = RunEvent.objects.filter(kind__startswith="alert_silence").order_by("pk")
    assert list(kinds.values_list("kind", "actor", "reason")) == [
        ("alert_silence_made", "user:ada", "we know"),
        ("alert_silence_ended", "user:bob", "back"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"until": NOON}, "until"),
        ({"until": NOON + timedelta(days=31)}, "until"),
        ({"until": datetime(2026, 3, 1, 13)}, "until"),  # noqa: DTZ001 naive times are refused
        ({"run": "nope"}, "run"),
        ({"rule": 1}, "rule"),
        ({"kind": "rule", "rule": 1}, "rule"),
    ],
)
def test_an_invalid_silence_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSilence) as refused:
        silence(**fields)

    assert refused.value.field == field
    assert not AlertSilence.objects.exists()
