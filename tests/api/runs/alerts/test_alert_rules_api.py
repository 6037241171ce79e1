"""Create, change and delete alert rules through the API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.services.metrics import Figure, store_figures
from runs.alerts.models import AlertRule, AlertSnooze
from runs.alerts.rules import RULES_AT_MOST
from runs.alerts.services import alerts
from runs.events.models import RunEvent
from tests.factories import make_run, make_user

pytestmark = pytest.mark.django_db

RULE: dict[str, Any] = {
    "name": "Loss is high",
    "metric": "train/loss",
    "comparator": "above",
    "threshold": 5.0,
    "for_seconds": 60,
    "severity": "error",
    "runbook": "Lower the learning rate.",
}


@pytest.fixture
def olga() -> Client:
    client = Client()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def send(client: Client, verb: str, path: str, body: dict[str, Any]) -> Any:
    return getattr(client, verb)(f"/api/v1/{path}", body, content_type="application/json")


def made(client: Client, **fields: Any) -> dict[str, Any]:
    answer = send(client, "post", "alerts/rules", {**RULE, **fields})
    assert answer.status_code == 201, answer.content
    row: dict[str, Any] = answer.json()
    return row


def test_a_rule_is_created_listed_changed_and_deleted_with_reasons(olga: Client) -> None:
    make_run(name="pole")
    row = made(olga, run="pole", reason="it diverged last week")
    assert (row["run"], row["filter"], row["condition"]) == ("pole", "", "above 5 for 1 min")
    assert (row["created_by"], row["firing"], row["is_enabled"]) == ("olga", 0, True)
    assert row["action"] == "notify"

    path = f"alerts/rules/{row['id']}"
    louder = {**RULE, "threshold": 9.0, "action": "pause"}
    changed = send(olga, "put", path, {**louder, "reason": "too loud"}).json()
    assert (changed["threshold"], changed["action"], changed["run"]) == (9.0, "pause", None)
    assert send(olga, "put", path, louder).json() == changed
    listed = olga.get("/api/v1/alerts/rules").json()
    assert (listed["results"], listed["at_most"]) == ([changed], RULES_AT_MOST)

    assert olga.delete(f"/api/v1/{path}?reason={'x' * 2001}").status_code == 400
    assert olga.delete(f"/api/v1/{path}?reason=over").status_code == 204
    assert olga.get(f"/api/v1/{path}").status_code == 404
    events = RunEvent.objects.filter(kind__startswith="alert_rule").order_by("pk")
    assert list(events.values_list("kind", "actor", "reason")) == [
        ("alert_rule_made", "user:olga", "it diverged last week"),
        ("alert_rule_changed", "user:olga", "too loud"),
        ("alert_rule_deleted", "user:olga", "over"),
    ]
    assert events[1].details["threshold"] == {"before": 5.0, "after": 9.0}
    assert events[1].details["action"] == {"before": "notify", "after": "pause"}
    assert events[2].details["before"]["action"] == "pause"
    condition = "the alert rule Loss is high: train/loss above 9 for 1 min; it pauses the run"
    assert [event.message for event in events[1:]] == [
        f"changed {condition}",
        f"deleted {condition}",
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "  "}, "name"),
        ({"name": ""}, "name"),
        ({"metric": "a;b"}, "metric"),
        ({"comparator": "near"}, "comparator"),
        ({"threshold": None}, "threshold"),
        ({"comparator": "not_finite"}, "threshold"),
        ({"comparator": "no_data"}, "threshold"),
        ({"comparator": "no_data", "threshold": None, "for_seconds": 9}, "for_seconds"),
        ({"for_seconds": -1}, "for_seconds"),
        ({"severity": "loud"}, "severity"),
        ({"action": "stop"}, "action"),
        ({"run": "nope"}, "run"),
        ({"filter": "state:nowhere"}, "filter"),
        ({"run": "pole", "filter": "tag:a"}, "filter"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_field_and_not_stored(
    olga: Client, fields: dict[str, Any], field: str
) -> None:
    make_run(name="pole")
    answer = send(olga, "post", "alerts/rules", {**RULE, **fields})

    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not AlertRule.objects.exists()


def test_the_number_of_rules_is_limited(olga: Client) -> None:
    row = made(olga)
    rule = AlertRule.objects.get(pk=row["id"])
    AlertRule.objects.bulk_create(_copies(rule, RULES_AT_MOST - 1))

    assert send(olga, "post", "alerts/rules", RULE).status_code == 409
    assert AlertRule.objects.count() == RULES_AT_MOST


def _copies(rule: AlertRule, number: int) -> list[AlertRule]:
    fields = {field.attname: getattr(rule, field.attname) for field in AlertRule._meta.fields}
    return [AlertRule(**{**fields, "id": None}) for _ in range(number)]


def test_a_snoozed_rule_fires_without_being_counted_by_the_bell(
    olga: Client,
) -> None:
    now = datetime.now(UTC)
    run = make_run(name="pole")
    store_figures(run_id=run.pk, figures=[Figure("train/loss", 1, 9.0)], now=now)
    row = made(olga, for_seconds=0)
    body = {"rule": row["id"], "until": None, "reason": "a sweep is under way"}
    answer = send(olga, "post", "alerts/snoozes", body)
    assert answer.status_code == 201, answer.content
    alerts.watch(now=datetime.now(UTC))

    page = olga.get("/api/v1/alerts?kind=rule").json()
    (alert,) = page["results"]
    assert (alert["kind"], alert["metric"], alert["title"]) == ("rule", "train/loss", RULE["name"])
    assert (alert["is_snoozed"], alert["snoozed_until"]) == (True, None)
    assert [page["summary"][name] for name in ("errors", "snoozed")] == [0, 1]
    assert "rule" not in {alert["kind"] for alert in page["summary"]["newest"]}
    assert olga.get("/api/v1/alerts/rules").json()["results"][0]["firing"] == 1
    (listed,) = olga.get("/api/v1/alerts/snoozes").json()["results"]
    assert (listed["title"], listed["rule"], listed["created_by"]) == (
        "Loss is high",
        row["id"],
        "olga",
    )

    place = f"/api/v1/alerts/snoozes/{answer.json()['id']}?reason=done"
    assert [olga.delete(place).status_code for _ in range(2)] == [204, 404]
    assert olga.get("/api/v1/alerts/snoozes").json()["results"] == []
    assert olga.get("/api/v1/alerts?kind=rule").json()["results"][0]["is_snoozed"] is False


def test_a_snooze_needs_a_subject_and_a_reason(olga: Client) -> None:
    row = made(olga)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for body in ({"rule": row["id"], "until": until}, {"until": until, "reason": "x"}):
        assert send(olga, "post", "alerts/snoozes", body).status_code == 400
    assert not AlertSnooze.objects.exists()
