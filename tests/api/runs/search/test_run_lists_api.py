"""Lists of runs over HTTP, and bulk actions."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.search import services
from tests.factories import NOON, make_run, make_user


@pytest.fixture
def olga(db: None) -> APIClient:
    client = APIClient()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def act(client: APIClient, **body: Any) -> Any:
    return client.post("/api/v1/run-actions", body, format="json")


def outcome(answer: Any) -> dict[str, str]:
    assert answer.status_code == 200, answer.content
    return {each["name"]: each["problem"] for each in answer.json()["results"]}


def test_an_invalid_filter_is_refused_with_its_position(olga: APIClient) -> None:
    answer = olga.get("/api/v1/runs", {"q": "name~a stat:running"})

    assert answer.status_code == 400
    (problem,) = answer.json()["errors"]
    assert (problem["field"], problem["start"], problem["end"]) == ("q", 7, 11)
    assert "unknown qualifier 'stat'" in problem["message"]


def test_pages_are_consecutive(olga: APIClient) -> None:
    for name in ("alpha", "beta", "gamma"):
        make_run(name=name)

    first = olga.get("/api/v1/runs", {"sort": "name", "limit": 2}).json()
    second = olga.get("/api/v1/runs", {"sort": "name", "cursor": first["next"]}).json()

    assert [run["name"] for run in first["results"]] == ["alpha", "beta"]
    assert first["total"] == 3
    assert [run["name"] for run in second["results"]] == ["gamma"]
    assert second["next"] is None


def test_search_and_status_parameters_are_accepted(olga: APIClient) -> None:
    make_run(name="alpha-1")
    make_run(name="beta", status=RunStatus.PAUSED)

    both = olga.get("/api/v1/runs", {"q": "BET", "status": "paused"}).json()["results"]
    assert [run["name"] for run in both] == ["beta"]


def test_the_filter_language_is_described_by_the_api(olga: APIClient) -> None:
    rows = {row["name"]: row for row in olga.get("/api/v1/run-filter").json()["results"]}

    assert rows["state"]["choices"][:2] == ["draft", "queued"]
    assert rows["step"]["operators"] == [":", "=", ">", ">=", "<", "<="]


def test_tags_are_normalized_and_their_change_is_stored(olga: APIClient) -> None:
    run = make_run(status=RunStatus.COMPLETED)

    answer = olga.put(
        "/api/v1/runs/alpha/tags",
        {"tags": ["Night", "ablation", "night"], "reason": "found"},
        format="json",
    )
    assert answer.json()["tags"] == ["ablation", "night"]
    event = RunEvent.objects.filter(run=run).latest("id")
    assert (event.kind, event.actor, event.reason) == ("tagged", "user:olga", "found")
    assert event.details == {"tags": {"before": [], "after": ["ablation", "night"]}}

    refused = olga.put("/api/v1/runs/alpha/tags", {"tags": ["two words"]}, format="json")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "tags"


def test_a_bulk_action_lists_failures_with_reasons(olga: APIClient) -> None:
    running, over = make_run(name="goes"), make_run(name="over", status=RunStatus.COMPLETED)

    done = outcome(act(olga, action="pause", ids=[running.pk, over.pk], reason="maintenance"))

    assert done == {"goes": "", "over": "over is completed: pause is not allowed"}
    assert Run.objects.get(name="goes").status == "paused"
    event = RunEvent.objects.filter(run=running).latest("id")
    assert (event.actor, event.reason) == ("user:olga", "maintenance")


def test_a_bulk_action_on_a_filter_is_applied_in_parts(
    olga: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(services.AT_ONCE + 1):
        make_run(name=f"run-{number}", kind="outside")
    make_run(name="other", kind="outside")

    first = act(olga, action="tag", q="name~run-", tag="sweep").json()
    second = act(
        olga, action="tag", q="name~run-", tag="sweep", after_id=first["next_after_id"]
    ).json()

    assert (len(first["results"]), first["left"]) == (services.AT_ONCE, 1)
    assert (len(second["results"]), second["left"], second["next_after_id"]) == (1, 0, None)
    assert Run.objects.filter(tags__contains=["sweep"]).count() == services.AT_ONCE + 1


def test_ended_runs_are_archived_and_unarchived_unless_the_name_is_taken(olga: APIClient) -> None:
    over, active = make_run(name="over", status=RunStatus.STOPPED), make_run(name="active")

    done = outcome(act(olga, action="archive", ids=[over.pk, active.pk]))
    refused = "active is running: only ended runs and drafts can be archived"
    assert done == {"over": "", "active": refused}
    assert [run["name"] for run in olga.get("/api/v1/runs").json()["results"]] == ["active"]

    usurper = make_run(name="over")
    assert outcome(act(olga, action="unarchive", ids=[over.pk])) == {
        "over": "a current run has its name"
    }
    Run.objects.filter(pk=usurper.pk).delete()
    assert outcome(act(olga, action="unarchive", q="is:archived")) == {"over": ""}


@pytest.mark.parametrize("action", ["pause", "drain", "stop", "kill", "archive", "tag"])
@pytest.mark.parametrize(
    ("q", "confirmed"),
    [("", None), ("  ", None), ("", 0), ("", 2), ("", 4), ("", 1), ("\t", 3)],
)
def test_an_action_on_all_runs_needs_their_number(
    olga: APIClient, action: str, q: str, confirmed: int | None
) -> None:
    for name in ("first", "second", "third"):
        make_run(name=name, kind="outside")
    make_run(name="hidden", status=RunStatus.STOPPED, archived_at=NOON)
    given = {} if confirmed is None else {"all_runs": confirmed}

    answer = act(olga, action=action, q=q, tag="a", **given)

    if confirmed == 3:
        assert {row["name"] for row in answer.json()["results"]} == {"first", "second", "third"}
        return
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "all_runs")
    assert "all_runs: 3" in answer.json()["errors"][0]["message"]
    changed = Run.objects.exclude(status="running", tags=[], archived_at=None)
    assert [run.name for run in changed] == ["hidden"]


def test_an_action_on_all_runs_continues_with_the_confirmed_number(
    olga: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.search.api.AT_ONCE", 2)
    for name in ("first", "second", "third"):
        make_run(name=name, kind="outside", status=RunStatus.STOPPED)

    first = act(olga, action="archive", q="", all_runs=3).json()
    second = act(olga, action="archive", q="", all_runs=3, after_id=first["next_after_id"]).json()
    without = act(olga, action="archive", q="", after_id=first["next_after_id"])

    assert (len(first["results"]), len(second["results"]), second["left"]) == (2, 1, 0)
    assert without.status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "pause"}, "ids"),
        ({"action": "pause", "ids": [1], "q": ""}, "ids"),
        ({"action": "tag", "ids": [1]}, "tag"),
        ({"action": "delete", "ids": [1]}, "action"),
        ({"action": "pause", "q": "state:odd"}, "q"),
    ],
)
def test_an_invalid_bulk_action_is_refused(
    olga: APIClient, body: dict[str, Any], field: str
) -> None:
    answer = act(olga, **body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


def test_the_activity_of_many_runs_is_read_together(olga: APIClient) -> None:
    run = make_run()

    answer = olga.get("/api/v1/run-activity", {"ids": f"{run.pk},999999"})
    assert answer.status_code == 200
    assert answer.json()["results"][str(run.pk)]["queued"] is None
    assert olga.get("/api/v1/run-activity", {"ids": "1,x"}).status_code == 400


def test_the_number_of_diagnosed_runs_is_limited_to_a_page(olga: APIClient) -> None:
    run = make_run(status=RunStatus.PAUSED)

    answer = olga.get("/api/v1/run-diagnoses", {"ids": f"{run.pk},999999"})

    assert answer.status_code == 200
    results = answer.json()["results"]
    assert set(results) == {str(run.pk)}
    assert results[str(run.pk)] == olga.get("/api/v1/runs/alpha/pipeline").json()["diagnosis"]
    assert results[str(run.pk)]["summary"].startswith("The run is paused")
    for ids in ("", "1,x", ",".join(str(n) for n in range(13))):
        refused = olga.get("/api/v1/run-diagnoses", {"ids": ids})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "ids")


def test_the_list_can_be_exported(olga: APIClient) -> None:
    make_run(name="alpha", tags=["night"])

    answer = olga.get("/api/v1/runs.csv", {"q": "tag:night"})
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.content.decode().splitlines()[1].startswith("alpha,fleet,running,")
    assert olga.get("/api/v1/runs.csv", {"q": "tag:"}).status_code == 400
