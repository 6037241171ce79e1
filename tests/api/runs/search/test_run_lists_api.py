"""Lists of runs over HTTP, and bulk actions."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from rollouts.metrics.schemas import Metric, MetricsPush
from rollouts.metrics.services.metrics import record_metrics
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
        ({"action": "delete", "ids": [1]}, "reason"),
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


def make_run_with(name: str, config: Any = None, **metrics: Any) -> Run:
    run = make_run(name=name)
    Run.objects.filter(pk=run.pk).update(config=config or {})
    samples = [Metric(name=key, step=1, value=value) for key, value in metrics.items()]
    record_metrics(run_id=run.pk, push=MetricsPush(samples=samples), now=NOON)
    return run


def names_by(client: APIClient, sort: str, limit: int = 2) -> list[str]:
    """Return the names of all runs in order, read in small pages."""
    names, cursor = [], ""
    while True:
        query = {"sort": sort, "limit": limit, "cursor": cursor}
        page = client.get("/api/v1/runs", query)
        assert page.status_code == 200, page.content
        names += [run["name"] for run in page.json()["results"]]
        if not (cursor := page.json()["next"] or ""):
            return names


def test_columns_are_configuration_values_and_last_metrics(olga: APIClient) -> None:
    first = make_run_with("first", {"buffer": {"batch_size": 64, "x": None}, "deep": "x" * 500})
    make_run_with("second", {"lessons": [1, "a"], "is_fast": True}, loss="NaN", kl=0.5)
    for value in (3.0, 2.5):
        push = MetricsPush(samples=[Metric(name="loss", step=2, value=value)])
        record_metrics(run_id=first.pk, push=push, now=NOON)

    names = olga.get("/api/v1/run-columns").json()["results"]
    rows = olga.get("/api/v1/runs", {"columns": ",".join(names), "sort": "name"}).json()["results"]

    assert names == [
        *("config.buffer.batch_size", "config.deep", "config.is_fast", "config.lessons"),
        *("metric.kl", "metric.loss"),
    ]
    assert [row["columns"] for row in rows] == [
        dict(zip(names, [64, "x" * 200, None, None, None, 2.5], strict=True)),
        dict(zip(names, [None, None, True, '[1, "a"]', 0.5, "NaN"], strict=True)),
    ]
    assert olga.get("/api/v1/run-columns", {"q": "first"}).json()["results"] == [
        *("config.buffer.batch_size", "config.deep", "metric.loss")
    ]
    assert "columns" not in olga.get("/api/v1/runs").json()["results"][0]


def test_runs_are_sorted_by_configuration_with_missing_values_last(olga: APIClient) -> None:
    sizes = {"a": 10, "b": 9, "c": 0.1234567890123, "e": 9, "text": "9", "null": None}
    for name, size in sizes.items():
        make_run_with(name, {"buffer": {"size": size}})
    make_run_with("none", {"buffer": "flat"})

    # As in jsonb: texts before numbers.
    assert names_by(olga, "config.buffer.size") == ["text", "c", "b", "e", "a", "null", "none"]
    assert names_by(olga, "-config.buffer.size") == ["a", "e", "b", "c", "text", "none", "null"]


def test_runs_are_sorted_by_a_metric_with_missing_values_and_nan_last(olga: APIClient) -> None:
    values = {"low": -1.0, "high": 1 / 3, "same": 1 / 3, "nan": "NaN", "most": "Infinity"}
    for name, value in values.items():
        make_run_with(name, loss=value)
    make_run_with("never")

    assert names_by(olga, "metric.loss") == ["low", "high", "same", "most", "nan", "never"]
    assert names_by(olga, "-metric.loss") == ["most", "same", "high", "low", "never", "nan"]


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ({"columns": "metric.los"}, "columns", "'metric.los'"),
        ({"columns": "metric.loss,config.buffer.sise"}, "columns", "'config.buffer.sise'"),
        ({"columns": "loss"}, "columns", "'loss'"),
        ({"columns": "config."}, "columns", "'config.'"),
        ({"columns": "config.a\x00"}, "columns", "config.a"),
        ({"columns": ",".join(["metric.loss"] * 21)}, "columns", "21 columns, at most 20"),
        ({"sort": "metric.los"}, "sort", "'metric.los'"),
        ({"sort": "-config.buffer.sise"}, "sort", "'config.buffer.sise'"),
        ({"sort": "loss"}, "sort", "'loss'"),
        ({"sort": "metric." + "x" * 999}, "sort", "metric.xxx"),
    ],
)
def test_unknown_columns_are_refused_by_name(
    olga: APIClient, query: dict[str, str], field: str, text: str
) -> None:
    make_run_with("first", {"buffer": {"size": 1}}, loss=1.0)

    answer = olga.get("/api/v1/runs", query)

    assert answer.status_code == 400
    (problem,) = answer.json()["errors"]
    assert problem["field"] == field
    assert text in problem["message"]
    assert len(problem["message"]) < 400


def test_a_column_without_a_value_in_the_listed_runs_is_empty(olga: APIClient) -> None:
    make_run_with("first", {"buffer": {"size": 1}}, loss=1.0)
    make_run_with("second")
    query = {"q": "second", "columns": "metric.loss,config.buffer.size", "sort": "metric.loss"}

    (row,) = olga.get("/api/v1/runs", query).json()["results"]

    assert row["columns"] == {"metric.loss": None, "config.buffer.size": None}


def test_a_page_with_columns_takes_as_many_queries_as_one_without(olga: APIClient) -> None:
    for number in range(4):
        make_run_with(f"run-{number}", {"seed": number}, loss=1.0, kl=number)
    columns = "config.seed,metric.loss,metric.kl"

    def count(**query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert olga.get("/api/v1/runs", query).status_code == 200
        return len(queries)

    assert count(columns=columns, sort="-metric.kl") == count()


def test_ended_runs_are_deleted_in_bulk_with_a_reason(olga: APIClient) -> None:
    over = make_run(name="over", status=RunStatus.COMPLETED, tags=["trial"])
    archived = make_run(name="old", status=RunStatus.FAILED, tags=["trial"])
    active = make_run(name="active", tags=["trial"])
    act(olga, action="archive", ids=[archived.pk])

    assert act(olga, action="delete", q="tag:trial").status_code == 400
    body = {"action": "delete", "ids": [over.pk, archived.pk, active.pk], "reason": "trials"}
    done = outcome(act(olga, **body))

    assert (done["over"], done["old"]) == ("", "")
    assert done["active"]
    assert olga.get("/api/v1/runs", {"q": "tag:trial"}).json()["total"] == 1
    reasons = RunEvent.objects.filter(kind="run_deleted").values_list("reason", flat=True)
    assert [*reasons] == ["trials"] * 2
    assert outcome(act(olga, **body)) == {"active": done["active"]}
