"""Create, change, delete and preview alert rules through the API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.services.metrics import Figure, store_figures
from runs.alerts.models.alert_rules import AlertRule, AlertSilence
from runs.alerts.rules.alert_rules import RULES_AT_MOST
from runs.alerts.services import conditions
from runs.events.models import RunEvent
from runs.lifecycle.rules.lifecycle import RunStatus
from tests.factories import NOON, make_run, make_user

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
    answer = send(client, "post", "alert-rules", {**RULE, **fields})
    assert answer.status_code == 201, answer.content
    row: dict[str, Any] = answer.json()
    return row


def test_a_rule_is_created_listed_changed_and_deleted_with_reasons(olga: Client) -> None:
    make_run(name="pole")
    row = made(olga, run="pole", reason="it diverged last week")
    assert (row["run"], row["filter"], row["condition"]) == ("pole", "", "above 5 for 1 min")
    assert (row["created_by"], row["firing"], row["is_enabled"]) == ("olga", 0, True)

    path = f"alert-rules/{row['id']}"
    changed = send(olga, "put", path, {**RULE, "threshold": 9.0, "reason": "too loud"}).json()
    assert (changed["threshold"], changed["run"]) == (9.0, None)
    assert send(olga, "put", path, {**RULE, "threshold": 9.0}).json() == changed
    listed = olga.get("/api/v1/alert-rules").json()
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
    answer = send(olga, "post", "alert-rules", {**RULE, **fields})

    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not AlertRule.objects.exists()


def test_the_number_of_rules_is_limited(olga: Client) -> None:
    row = made(olga)
    rule = AlertRule.objects.get(pk=row["id"])
    AlertRule.objects.bulk_create(_copies(rule, RULES_AT_MOST - 1))

    assert send(olga, "post", "alert-rules", RULE).status_code == 409
    assert AlertRule.objects.count() == RULES_AT_MOST


def _copies(rule: AlertRule, number: int) -> list[AlertRule]:
    fields = {field.attname: getattr(rule, field.attname) for field in AlertRule._meta.fields}
    return [AlertRule(**{**fields, "id": None}) for _ in range(number)]


def test_a_preview_shows_when_a_rule_would_have_fired_and_stores_nothing(olga: Client) -> None:
    now = datetime.now(UTC)
    runs = [make_run(name=name, tags=["ablation"]) for name in ("one", "two", "bare")]
    values = [(600, 1.0), (500, 6.0), (380, 7.0), (300, 1.0), (200, 9.0), (190, 1.0)]
    for seconds, value in values:
        at = now - timedelta(seconds=seconds)
        store_figures(run_id=runs[0].pk, figures=[Figure("train/loss", 1, value)], now=at)
    store_figures(run_id=runs[1].pk, figures=[Figure("train/loss", 1, 9.0)], now=now)
    query = {name: RULE[name] for name in ("metric", "comparator", "threshold", "for_seconds")}

    answer = olga.get(
        "/api/v1/alert-rules/preview", {**query, "filter": "tag:ablation", "hours": 1}
    )

    assert answer.status_code == 200, answer.content
    preview = answer.json()
    assert (preview["condition"], preview["runs"], preview["measured"]) == (
        "above 5 for 1 min",
        3,
        2,
    )
    two, one = preview["results"]
    assert (two["run"], two["fired"], two["is_watched"]) == ("two", [], True)
    (fired,) = one["fired"]
    spell = [
        (now - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
        for seconds in (500, 440, 300)
    ]
    assert [fired["began_at"], fired["raised_at"], fired["ended_at"]] == spell
    assert (len(one["line"]["x"]), one["accuracy_seconds"]) == (6, 0)
    assert not AlertRule.objects.exists()


def test_a_preview_shows_gaps_of_a_metric(olga: Client) -> None:
    now = datetime.now(UTC)
    run = make_run(name="pole")
    for seconds in (900, 880, 500, 480):
        at = now - timedelta(seconds=seconds)
        store_figures(run_id=run.pk, figures=[Figure("train/loss", 1, 2.0)], now=at)

    query = {"metric": "train/loss", "comparator": "no_data", "for_seconds": 300, "run": "pole"}
    preview = olga.get("/api/v1/alert-rules/preview", query).json()

    assert preview["condition"] == "without data for 5 min"
    past, lasting = preview["results"][0]["fired"]
    assert (past["ended_at"] is None, lasting["ended_at"]) == (False, None)
    raised = [datetime.fromisoformat(each["raised_at"]) for each in (past, lasting)]
    expected = [now - timedelta(seconds=seconds) for seconds in (880 - 300, 480 - 300)]
    assert raised == expected


def test_a_preview_of_an_ended_run_shows_its_last_hours(olga: Client) -> None:
    run = make_run(name="past", status=RunStatus.COMPLETED)
    for minute, value in enumerate([1.0, 9.0, 9.0, 1.0]):
        at = NOON + timedelta(minutes=minute)
        store_figures(run_id=run.pk, figures=[Figure("train/loss", 1, value)], now=at)

    query = {"metric": "train/loss", "comparator": "above", "threshold": 5, "run": "past"}
    (shown,) = olga.get("/api/v1/alert-rules/preview", query).json()["results"]

    assert (shown["is_watched"], len(shown["fired"])) == (False, 1)
    assert shown["ended_at"] == "2026-03-01T12:03:00Z"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"metric": ""}, "metric"),
        ({"comparator": "near"}, "comparator"),
        ({"threshold": "nan"}, "threshold"),
        ({"threshold": ""}, "threshold"),
        ({"for_seconds": "1e3"}, "for_seconds"),
        ({"hours": "0"}, "hours"),
        ({"run": "nope"}, "run"),
        ({"filter": "state:nowhere"}, "filter"),
        ({"metric": "a\x00"}, "metric"),
    ],
)
def test_an_invalid_preview_is_refused_with_its_field(
    olga: Client, query: dict[str, Any], field: str
) -> None:
    given = {"metric": "loss", "comparator": "above", "threshold": "5", **query}
    answer = olga.get("/api/v1/alert-rules/preview", given)

    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_a_silenced_rule_fires_without_being_counted_by_the_bell(
    olga: Client,
) -> None:
    now = datetime.now(UTC)
    run = make_run(name="pole")
    store_figures(run_id=run.pk, figures=[Figure("train/loss", 1, 9.0)], now=now)
    row = made(olga, for_seconds=0)
    until = (now + timedelta(hours=1)).isoformat()
    body = {"kind": "rule", "rule": row["id"], "until": until, "reason": "a sweep is under way"}
    answer = send(olga, "post", "alert-silences", body)
    assert answer.status_code == 201, answer.content
    conditions.watch(now=datetime.now(UTC))

    page = olga.get("/api/v1/alerts?kind=rule").json()
    (alert,) = page["results"]
    assert (alert["kind"], alert["metric"], alert["title"]) == ("rule", "train/loss", RULE["name"])
    assert alert["silenced_until"] is not None
    assert [page["summary"][name] for name in ("errors", "silenced")] == [0, 1]
    assert "rule" not in {alert["kind"] for alert in page["summary"]["newest"]}
    assert olga.get("/api/v1/alerts?state=silenced").json()["results"] == [alert]
    assert olga.get("/api/v1/alert-rules").json()["results"][0]["firing"] == 1

    silence = answer.json()["id"]
    ended = send(olga, "post", f"alert-silences/{silence}/end", {"reason": "done"})
    assert (ended.status_code, ended.json()["is_lasting"]) == (200, False)
    assert send(olga, "post", f"alert-silences/{silence}/end", {}).status_code == 404
    listed = olga.get("/api/v1/alert-silences").json()["results"]
    assert [(silence["rule_name"], silence["ended_by"]) for silence in listed] == [
        ("Loss is high", "olga")
    ]
    assert olga.get("/api/v1/alerts?state=silenced").json()["results"] == []


def test_a_silence_needs_a_reason(olga: Client) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for body in ({"kind": "rule", "until": until}, {"kind": "loud", "until": until, "reason": "x"}):
        assert send(olga, "post", "alert-silences", body).status_code == 400
    assert not AlertSilence.objects.exists()
