"""Cleared alerts are deleted after the retention period; firing ones stay."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from runs.alerts.models import Alert, AlertDelivery
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.services import alerts
from runs.alerts.services.alerts import delete_old_alerts
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db

OLD = NOON - timedelta(days=91)


def raise_one(run_name: str) -> int:
    run = make_run(name=run_name)
    condition = Condition(kind=AlertKind.RUN_STALLED, run_id=run.pk, message="nothing came")
    return alerts.raise_alert(condition, now=OLD)


def test_only_long_resolved_alerts_are_deleted(settings: Settings) -> None:
    settings.ROLLDECK_ALERT_WEBHOOKS = ["https://hooks.example.org/"]
    over, lately, settled, holds = (raise_one(name) for name in ("a", "b", "c", "d"))
    alerts.clear([over], now=OLD)
    alerts.clear([lately], now=NOON - timedelta(days=1))
    alerts.resolve(alert_id=settled, actor="user:ada", now=OLD)  # its condition still holds

    assert delete_old_alerts(now=NOON) == 1

    assert {*Alert.objects.values_list("pk", flat=True)} == {lately, settled, holds}
    assert not AlertDelivery.objects.filter(alert=over).exists()
    assert AlertDelivery.objects.filter(alert=holds).exists()


def test_alerts_are_kept_without_a_limit(settings: Settings) -> None:
    settings.ROLLDECK_ALERT_RETENTION_DAYS = 0
    alerts.clear([raise_one("a")], now=OLD)

    assert delete_old_alerts(now=NOON) == 0
    assert Alert.objects.exists()
