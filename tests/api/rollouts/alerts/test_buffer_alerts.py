"""Buffer alerts fire between producers and trainers, and resolve when the cause is gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from runs.alerts.models import Alert
from runs.lifecycle.models import Run
from tests.alert_evaluation import evaluate_alerts
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from web.disk_space import free_disk_bytes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    return make_words_run()


def watched(*, at: datetime | None = None) -> dict[str, str]:
    """Look once, and return the message of every alert that holds, by kind."""
    evaluate_alerts(now=at or datetime.now(UTC))
    return dict(Alert.objects.filter(cleared_at=None).values_list("kind", "message"))


def test_an_expired_lease_raises_an_alert_until_the_batch_is_leased_again(
    outside: OutsideRun,
) -> None:
    outside.push(mark=1)
    outside.push(mark=2)
    outside.next()
    outside.lapse()
    assert watched() == {
        "lease_lapsed": "1 batch of words returned to the queue: the lease expired"
    }

    outside.next()
    assert watched() == {}


def test_a_quarantined_batch_raises_an_alert_until_it_is_released_or_discarded(
    outside: OutsideRun,
) -> None:
    outside.push(mark=1)
    outside.push(mark=2)
    for _ in range(3):
        batch = outside.next()
        outside.lapse()
    alerts = watched()

    assert alerts == {
        "batch_quarantined": "batch 1 of words is quarantined: its lease expired 3 times"
    }
    assert Alert.objects.get().subject == batch["batch"]["id"]
    assert outside.decide("release", batch["batch"]["id"]).status_code == 200
    assert watched() == {}


def test_a_quarantined_batch_of_an_archived_run_raises_no_alert(outside: OutsideRun) -> None:
    outside.push(mark=1)
    outside.push(mark=2)
    for _ in range(3):
        outside.next()
        outside.lapse()
    assert [*watched()] == ["batch_quarantined"]

    Run.objects.filter(pk=outside.run.pk).update(archived_at=datetime.now(UTC))
    assert watched() == {}


def test_corrupt_bytes_are_reported_once_for_each_read(outside: OutsideRun) -> None:
    for mark in (1, 2):
        outside.push(mark=mark)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buffer_payload SET content = set_byte(content, 12, get_byte(content, 12) # 1)"
        )
    outside.next()

    alert = Alert.objects.get()
    assert (alert.kind, alert.run_id, alert.times_seen) == ("items_corrupt", outside.run.pk, 1)
    evaluate_alerts(now=datetime.now(UTC))
    alert.refresh_from_db()
    assert alert.state == "open"


def stopped_clock(outside: OutsideRun, **fields: Any) -> datetime:
    """Set the start of the run one hour back, and return the end of that hour."""
    now = datetime.now(UTC)
    Run.objects.filter(pk=outside.run.pk).update(status_changed_at=now, **fields)
    return now + timedelta(hours=1)


def test_a_run_without_new_items_or_without_a_trainer_raises_an_alert(outside: OutsideRun) -> None:
    at = stopped_clock(outside)
    assert watched(at=at) == {"run_stalled": "words has received no items for more than 10 min"}

    outside.push(mark=1)
    outside.push(mark=2)
    assert [*watched(at=at)] == ["training_stalled"]
    assert outside.next() is not None
    assert watched(at=at) == {}


def test_a_stall_raises_an_alert_for_running_runs_only_and_where_configured(
    outside: OutsideRun, settings: Settings
) -> None:
    at = stopped_clock(outside)
    settings.ROLLDECK_STALLED_SECONDS = 0
    assert watched(at=at) == {}
    settings.ROLLDECK_STALLED_SECONDS = 600
    Run.objects.filter(pk=outside.run.pk).update(status="paused")
    assert watched(at=at) == {}


GOOD, DROPPED = {"scores": [0.0, 1.0]}, {"scores": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("settings_of_run", "good", "bad", "dropped", "reason"),
    [
        ({"policy_step": 3, "epoch": 2}, 10, 20, {"policy_step": 9}, "future"),
        ({"policy_step": 3, "epoch": 2}, 10, 20, {"epoch": 3, "policy_step": 0}, "future"),
        ({"policy_step": 3, "epoch": 2}, 10, 20, {"epoch": 1, "policy_step": 3}, "stale_epoch"),
        ({"epoch": 2}, 10, 20, {"epoch": 1, "policy_step": 0}, "stale_epoch"),
        ({"overlong_sequences": "drop", "max_token_len": 3}, 10, 20, {"tokens": 5}, "overlong"),
        ({"drop_zero_variance": True}, 0, 20, DROPPED, "zero_variance"),
        ({"drop_zero_variance": True}, 10, 20, DROPPED, None),
        ({"policy_step": 3, "epoch": 2}, 10, 19, {"policy_step": 9}, None),
        ({"policy_step": 3, "epoch": 2}, 90, 20, {"policy_step": 9}, None),
        ({"policy_step": 3, "epoch": 2}, 10, 20, {}, None),
    ],
    ids=[
        "a later step",
        "a later epoch",
        "an earlier epoch",
        "an earlier epoch before weights",
        "long sequences",
        "equal scores in all groups",
        "equal scores in most groups",
        "few",
        "a small share",
        "none",
    ],
)
def test_groups_that_are_dropped_on_arrival_are_named_by_an_alert_and_the_diagnosis(
    outside: OutsideRun,
    settings_of_run: dict[str, Any],
    good: int,
    bad: int,
    dropped: dict[str, Any],
    reason: str | None,
) -> None:
    Run.objects.filter(pk=outside.run.pk).update(**settings_of_run)
    for number in range(good):
        outside.push(mark=number, **GOOD)
    for number in range(bad):
        outside.push(mark=100 + number, **(GOOD | dropped))
    now = datetime.now(UTC)

    alert = watched(at=now).get("stale_drops", "")
    diagnosis = outside.get("pipeline")["diagnosis"]
    assert (f"{bad} of the newest {good + bad} groups were dropped" in alert) is bool(reason)
    assert (diagnosis["kind"] == "stale_drops") is bool(reason)
    if reason:
        assert f"as `{reason}`: " in alert
        assert f"as `{reason}`: " in diagnosis["summary"]
        assert alert.endswith(diagnosis["change"])
    assert "stale_drops" not in watched(at=now + timedelta(minutes=11))


def test_a_full_queue_raises_an_alert(outside: OutsideRun, settings: Settings) -> None:
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 1
    outside.push(mark=1)

    assert watched()["queue_full"].startswith("words is at its limit of 1 groups")


def test_a_disk_that_fills_is_a_warning_and_then_an_error(settings: Settings) -> None:
    free = free_disk_bytes()
    settings.ROLLDECK_MIN_FREE_DISK_BYTES = int(free / 1.5)
    watched()
    assert Alert.objects.get().severity == "warning"

    settings.ROLLDECK_MIN_FREE_DISK_BYTES = free * 10
    watched()
    alert = Alert.objects.get()
    assert (alert.severity, alert.times_seen) == ("error", 1)
    assert "pushes, weights and archives are refused" in alert.message
