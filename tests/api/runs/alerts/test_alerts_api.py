"""List, acknowledge and resolve alerts through the API."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from runs.alerts.rules import AlertKind, Condition
from runs.alerts.services import alerts
from runs.events.models import RunEvent
from tests.factories import NOON, bearer, make_run, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> Client:
    client = Client()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def raise_one(kind: AlertKind, *, minutes: int = 0, **fields: Any) -> int:
    condition = Condition(kind=kind, **{"message": str(kind), **fields})
    return alerts.raise_alert(condition, now=NOON + timedelta(minutes=minutes))


def list_alerts(client: Client, **query: Any) -> Any:
    answer = client.get("/api/v1/alerts", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def post(client: Client, path: str, reason: str = "") -> Any:
    return client.post(
        f"/api/v1/alerts/{path}", {"reason": reason}, content_type="application/json"
    )


def kinds(page: Any) -> list[str]:
    return [row["kind"] for row in page["results"]]


def test_unresolved_alerts_are_listed_errors_first_in_pages(olga: Client) -> None:
    run = make_run(name="pole")
    raise_one(AlertKind.DISK_LOW)
    raise_one(AlertKind.RUN_STALLED, run_id=run.pk, message="nothing came into pole")
    over = raise_one(AlertKind.LEASE_LAPSED, run_id=run.pk)
    alerts.clear([over], now=NOON)

    first = list_alerts(olga, limit=1)
    then = list_alerts(olga, limit=1, cursor=first["next"])

    assert (kinds(first), kinds(then)) == (["disk_low"], ["run_stalled"])
    assert then["next"] is None
    (row,) = then["results"]
    assert (row["run"], row["severity"], row["title"]) == ("pole", "warning", "No new data")
    assert {key: first["summary"][key] for key in ("errors", "warnings", "acknowledged")} == {
        "errors": 1,
        "warnings": 1,
        "acknowledged": 0,
    }
    assert kinds({"results": first["summary"]["newest"]}) == ["disk_low", "run_stalled"]


def test_the_summary_groups_alerts_by_kind_with_the_most_severe_first(olga: Client) -> None:
    runs = [make_run(name=f"run-{number}") for number in range(60)]
    for run in runs:
        raise_one(AlertKind.RUN_STALLED, run_id=run.pk)
    for rule in ("1", "2"):
        raise_one(AlertKind.RULE, run_id=runs[0].pk, subject=rule)
    raise_one(AlertKind.ITEMS_CORRUPT, run_id=runs[1].pk)
    over = raise_one(AlertKind.LEASE_LAPSED, run_id=runs[1].pk)
    alerts.clear([over], now=NOON)

    groups = list_alerts(olga)["summary"]["groups"]
    found = [(one["kind"], one["count"], one["runs"][:2]) for one in groups]
    assert found == [
        ("items_corrupt", 1, ["run-1"]),
        ("rule", 1, ["run-0"]),
        ("rule", 1, ["run-0"]),
        ("run_stalled", 60, ["run-59", "run-58"]),
    ]
    assert groups[3]["run"] == "run-59"


def test_alerts_are_filtered_by_their_fields(olga: Client) -> None:
    run = make_run(name="pole")
    raise_one(AlertKind.DISK_LOW)
    over = raise_one(AlertKind.LEASE_LAPSED, run_id=run.pk, message="a batch of pole came back")
    alerts.clear([over], now=NOON)

    assert kinds(list_alerts(olga, state="resolved")) == ["lease_lapsed"]
    assert kinds(list_alerts(olga, state="all")) == ["lease_lapsed", "disk_low"]
    assert kinds(list_alerts(olga, state="all", run="pole")) == ["lease_lapsed"]
    assert kinds(list_alerts(olga, severity="warning")) == []
    assert kinds(list_alerts(olga, kind="disk_low")) == ["disk_low"]
    assert kinds(list_alerts(olga, state="all", text="CAME BACK")) == ["lease_lapsed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", "asleep"), ("kind", "x"), ("severity", "loud"), ("text", "\x00"), ("cursor", "-1")],
)
def test_an_invalid_filter_is_refused_with_its_field(olga: Client, name: str, value: str) -> None:
    answer = olga.get("/api/v1/alerts", {name: value})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == name


def test_an_alert_is_acknowledged_and_resolved_with_a_reason(olga: Client) -> None:
    alert = raise_one(AlertKind.DISK_LOW)

    seen = post(olga, f"{alert}/acknowledge", "moving old runs").json()
    again = post(olga, f"{alert}/acknowledge", "another reason").json()
    assert (seen["state"], seen["acknowledged_by"]) == ("acknowledged", "olga")
    assert again["acknowledged_reason"] == seen["acknowledged_reason"] == "moving old runs"

    over = post(olga, f"{alert}/resolve", "there is room").json()
    assert (over["state"], over["resolved_by"], over["cleared_at"]) == ("resolved", "olga", None)
    refused = post(olga, f"{alert}/acknowledge")
    assert (refused.status_code, refused.json()["code"]) == (409, "alert_resolved")
    assert olga.get(f"/api/v1/alerts/{alert}").json()["resolved_reason"] == "there is room"
    assert RunEvent.objects.filter(kind__startswith="alert_", actor="user:olga").count() == 2


def test_all_alerts_of_a_kind_are_acknowledged_at_once(olga: Client) -> None:
    runs = [make_run(name=f"run-{number}") for number in range(3)]
    stalled = [raise_one(AlertKind.RUN_STALLED, run_id=run.pk) for run in runs]
    rules = [raise_one(AlertKind.RULE, run_id=run.pk, subject="1") for run in runs]
    other_rule = raise_one(AlertKind.RULE, run_id=runs[0].pk, subject="2")
    resolved = raise_one(AlertKind.RUN_STALLED, run_id=make_run(name="over").pk)
    alerts.resolve(alert_id=resolved, actor="user:bo", now=NOON)

    def acknowledge(alert: int) -> Any:
        body = {"reason": "seen", "same_kind": True}
        path = f"/api/v1/alerts/{alert}/acknowledge"
        return olga.post(path, body, content_type="application/json")

    assert acknowledge(stalled[1]).json()["state"] == "acknowledged"
    rows = list_alerts(olga, kind="run_stalled", state="all")["results"]
    states = {row["id"]: (row["state"], row["acknowledged_reason"]) for row in rows}
    assert states == dict.fromkeys(stalled, ("acknowledged", "seen")) | {resolved: ("resolved", "")}
    acknowledge(rules[0])
    rows = list_alerts(olga, kind="rule", state="all")["results"]
    assert [row["id"] for row in rows if row["state"] == "open"] == [other_rule]


def test_a_token_that_acts_is_shown_by_its_name() -> None:
    alert = raise_one(AlertKind.DISK_LOW)
    machine = APIClient(headers=bearer("admin"))

    answer = machine.post(f"/api/v1/alerts/{alert}/acknowledge", {}, format="json")

    assert answer.json()["acknowledged_by"] == "a token"


def test_missing_alerts_and_invalid_reasons_are_refused(olga: Client) -> None:
    assert olga.get("/api/v1/alerts/77").status_code == 404
    assert post(olga, "77/resolve").status_code == 404
    alert = raise_one(AlertKind.DISK_LOW)
    wrong = olga.post(
        f"/api/v1/alerts/{alert}/resolve", {"reason": 7}, content_type="application/json"
    )
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "reason")
    assert olga.get(f"/api/v1/alerts/{alert}").json()["state"] == "open"


def test_prometheus_gets_the_number_of_alerts() -> None:
    raise_one(AlertKind.DISK_LOW)
    text = Client(headers=bearer("metrics")).get("/metrics").content.decode()

    assert 'rolldeck_alerts{severity="error",state="open"} 1.0' in text
    assert 'rolldeck_alerts{severity="warning",state="open"} 0.0' in text


def test_the_kinds_of_alerts_are_listed_with_the_titles_of_their_alerts(olga: Client) -> None:
    raise_one(AlertKind.DISK_LOW)
    rows = olga.get("/api/v1/alerts/kinds").json()["results"]

    (row,) = list_alerts(olga)["results"]
    assert [each["kind"] for each in rows] == sorted(AlertKind)
    assert {key: row[key] for key in ("kind", "title", "advice", "severity")} in rows


def test_unresolved_alerts_of_a_kind_are_one_entry_until_the_kind_is_named(olga: Client) -> None:
    runs = [make_run(name=f"run-{number}") for number in range(3)]
    stalled = [raise_one(AlertKind.RUN_STALLED, run_id=run.pk) for run in runs]
    rules = [raise_one(AlertKind.RULE, subject=rule) for rule in ("1", "2")]
    post(olga, f"{stalled[0]}/acknowledge")

    def entries(**query: Any) -> list[tuple[int, int, list[str]]]:
        return [
            (one["id"], one["count"], one["runs"]) for one in list_alerts(olga, **query)["results"]
        ]

    assert entries() == [
        (rules[1], 1, []),
        (rules[0], 1, []),
        (stalled[2], 2, ["run-2", "run-1"]),
        (stalled[0], 1, ["run-0"]),
    ]
    assert [one for one, *_ in entries(kind="run_stalled")] == stalled[::-1]
    for alert in stalled:
        post(olga, f"{alert}/resolve")
    assert [one for one, *_ in entries(state="resolved")] == stalled[::-1]
