"""Every list of the API has one shape, one kind of cursor and the same limits."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from buffer.archive.models import ArchiveJob
from buffer.capture.models import CaptureSession
from buffer.items.models import Batch, TrajectoryGroup
from buffer.payloads.models import Segment
from buffer.problems.models import LessonProblem
from buffer.tensors.models import StoredTensor, TensorObject
from rollouts.control.models import EpisodeWindow, Fleet, Recording, WeightsDelivery, WorkerAttempt
from rollouts.curriculum.models import Evaluation, Lesson, LessonChange, LessonOutcome
from rollouts.metrics.schemas import Metric, MetricsPush
from rollouts.metrics.services.metrics import record_metrics
from runs.alerts.models import Alert
from runs.alerts.rules import AlertKind
from runs.events.services import record_event
from runs.lifecycle.models import PolicyVersion, Run, RunDeletion
from runs.lifecycle.services.registry import register_environment
from runs.weights.models import WeightsCommand
from tests.factories import NOON, make_project, make_run, make_user
from tests.run_objects import _made as made

pytestmark = pytest.mark.django_db

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
DOCUMENT: Final[dict[str, Any]] = json.loads(REFERENCE.read_text("utf-8"))
READS: Final[dict[str, dict[str, Any]]] = {
    path: methods["get"]
    for path, methods in DOCUMENT["paths"].items()
    if path.startswith("/api/") and "get" in methods
}
# "results" by id, not in an order.
MAPS: Final = {"/api/v1/run-activity", "/api/v1/run-diagnoses"}
# Columns of equal length, and objects of several lists.
NOT_LISTS: Final = {
    "/api/v1/limits",
    "/api/v1/runs/{run}/fragments/{fragment}/steps",
    "/api/v1/runs/{run}/marks",
    "/api/v1/runs/{run}/metrics/samples",
}
# Not pages of a list: a file, columns, and a request that waits for a change.
OTHER_PARAMETERS: Final = {
    "/api/v1/audit.csv",
    "/api/v1/runs/{run}/fleet/control",
    "/api/v1/runs/{run}/groups/export",
    "/api/v1/runs/{run}/metrics/samples",
}
# The messages of stored content: see tests/api/buffer/inspect/test_group_contents.py.
MESSAGES: Final = "/api/v1/runs/{run}/groups/{group}/sequences/{sequence}/messages"
IN_BATCH: Final = UUID(int=5)


def parameters(path: str) -> dict[str, dict[str, Any]]:
    declared = READS[path].get("parameters", [])
    return {
        parameter["name"]: parameter["schema"]
        for parameter in declared
        if parameter["in"] == "query"
    }


def shape(path: str) -> dict[str, Any]:
    content = READS[path]["responses"].get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    definition: dict[str, Any] = DOCUMENT["components"]["schemas"].get(name, schema)
    return definition


LISTS: Final = sorted(
    path for path in READS if path not in MAPS and "results" in shape(path).get("properties", {})
)
PAGED: Final = [path for path in LISTS if "cursor" in parameters(path)]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_results_and_the_cursor_of_the_next_page(path: str) -> None:
    answer = shape(path)

    assert answer["properties"]["results"]["type"] == "array"
    assert answer["properties"]["next"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert {"results", "next"} <= set(answer["required"])


@pytest.mark.parametrize("path", LISTS)
def test_the_description_of_a_list_names_its_order(path: str) -> None:
    words = READS[path]["description"].lower()

    assert any(word in words for word in ("first", "order", "by ")), words


def test_operations_named_list_have_the_schema_of_lists() -> None:
    called = {path for path, read in READS.items() if read["summary"].startswith("List ")}

    assert called - NOT_LISTS - set(LISTS) == set()


def test_only_pages_have_the_parameters_of_pages() -> None:
    names = {"cursor", "limit", "before", "after"}
    used = {path: names & set(parameters(path)) for path in READS if path not in OTHER_PARAMETERS}

    assert sorted(path for path, some in used.items() if some) == PAGED
    assert all(used[path] == {"cursor", "limit"} for path in PAGED)
    for path in PAGED:
        limit = parameters(path)["limit"]
        assert 1 == limit["minimum"] <= limit["default"] <= limit["maximum"], path


Adder = Callable[[Run, int], object]


def add_metric(run: Run, number: int) -> None:
    samples = [Metric(name=f"loss/{number}", step=number, value=0.5)]
    record_metrics(run_id=run.pk, push=MetricsPush(samples=samples), now=NOON)


def add_pass(run: Run, number: int) -> None:
    Lesson.objects.update_or_create(
        run=run,
        name="reverse",
        defaults={"position": 0, "status": "active", "success": 0.0, "weight": 1.0}
        | {"pass_size": 1, "examples": number + 1},
    )


def add_problem(run: Run, number: int) -> None:
    add_pass(run, number)
    made(LessonProblem, run=run, lesson="reverse", number=number, leased_at=pair(number))


def add_environment(run: Run, number: int) -> None:
    register_environment(
        run_id=run.pk,
        desired_name=f"gsm8k-{number}",
        weight=1.0,
        max_token_length=10,
        group_size=4,
        min_batch_allocation=None,
        now=NOON,
    )


def add_item_of_batch(run: Run, number: int) -> None:
    batch = Batch.objects.filter(pk=IN_BATCH).first() or made(
        Batch, pk=IN_BATCH, run=run, state="quarantined", kind="groups"
    )
    made(TrajectoryGroup, run=run, state="quarantined", batch=batch, position=number)


def add_tensor(run: Run, number: int) -> None:
    object_ = made(TensorObject, run=run, size_bytes=1)
    made(StoredTensor, run=run, key=f"{number}@ids", object=object_, shape=[])


def fleet_of(run: Run) -> Fleet:
    return Fleet.objects.filter(run=run).first() or made(Fleet, run=run)


def pair(number: int) -> Any:
    """Return a time that two rows share, so that the id decides their order."""
    return NOON + timedelta(seconds=number // 2)


RUN: Final = "/api/v1/runs/{run}"
ADD: Final[dict[str, Adder]] = {
    "/api/v1/alerts": lambda run, n: made(
        Alert, run=run, key=f"k{n}", kind=list(AlertKind)[n], severity="error"
    ),
    "/api/v1/audit": lambda run, n: record_event(
        run_id=run.pk, kind="note", message=str(n), actor="user:ada", now=NOON
    ),
    "/api/v1/deletions": lambda _, n: made(
        RunDeletion, run_number=1000 + n, run_uid=f"run_{n}", name="alpha", epoch=1
    ),
    "/api/v1/environments": add_environment,
    "/api/v1/projects": lambda _, n: make_project(name=f"project-{n}"),
    "/api/v1/runs": lambda _, n: make_run(name=f"run-{n}", now=pair(n)),
    "/api/v1/segments": lambda _, n: Segment.objects.create(
        number=1000 + n, opened_at=NOON, sealed_at=NOON
    ),
    "/api/v1/trajectories": lambda run, _: made(
        TrajectoryGroup, run=run, state="queued", segment=1
    ),
    f"{RUN}/archives": lambda run, _: made(ArchiveJob, run=run, verb="export", state="done"),
    f"{RUN}/batches": lambda run, n: made(
        Batch, run=run, state="quarantined", kind="groups", ordinal=n + 1
    ),
    f"{RUN}/batches/{{batch}}/items": add_item_of_batch,
    f"{RUN}/captures": lambda run, n: made(
        CaptureSession, run=run, name=f"s{n}", changed_at=pair(n)
    ),
    f"{RUN}/episodes": lambda run, _: made(EpisodeWindow, run=run),
    f"{RUN}/evaluations": lambda run, n: made(
        Evaluation, run=run, lesson=f"l{n}", state="done", round=n // 3, position=n % 2
    ),
    f"{RUN}/events": lambda run, n: record_event(
        run_id=run.pk, kind="note", message=str(n), actor="user:ada", now=NOON
    ),
    f"{RUN}/fleet/attempts": lambda run, n: made(
        WorkerAttempt, fleet=fleet_of(run), incarnation=f"i{n}"
    ),
    f"{RUN}/lessons/{{lesson}}/micro-evaluations": lambda run, n: made(
        LessonOutcome, run=run, lesson="reverse", mode="micro_eval", key=str(n), samples=n + 1
    ),
    f"{RUN}/lessons/{{lesson}}/passes": add_pass,
    f"{RUN}/lessons/{{lesson}}/problems": add_problem,
    f"{RUN}/lessons/history": lambda run, _: made(LessonChange, run=run, lesson="reverse"),
    f"{RUN}/metrics": add_metric,
    f"{RUN}/metrics/keys": add_metric,
    f"{RUN}/recordings": lambda run, n: made(
        Recording, run=run, state="failed", requested_at=pair(n), worker=n
    ),
    f"{RUN}/tensors": add_tensor,
    f"{RUN}/weights": lambda run, n: made(PolicyVersion, run=run, epoch=1, step=n, file=""),
    f"{RUN}/weights/syncs": lambda run, n: made(
        WeightsDelivery, fleet=fleet_of(run), epoch=1, step=n // 2, worker=n % 2
    ),
    f"{RUN}/weights/commands": lambda run, n: made(
        WeightsCommand, run=run, kind="sync", number=n + 1
    ),
}


def test_every_paged_list_is_covered() -> None:
    assert set(ADD) | {MESSAGES} == set(PAGED)


class Lists:
    """An administrator who reads the lists of a run."""

    def __init__(self) -> None:
        self.run: Run = make_run(name="alpha", kind="outside")
        self.client = APIClient()
        self.client.force_login(make_user(username="ada", role="admin"))

    def get(self, path: str, **query: Any) -> Any:
        place = path.format(run="alpha", batch=IN_BATCH, lesson="reverse")
        given = {name: value for name, value in query.items() if value}
        return self.client.get(place, given)

    def page(self, path: str, **query: Any) -> Any:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def refused(self, path: str, **query: Any) -> tuple[int, str]:
        answer = self.get(path, **query)
        errors = answer.json().get("errors") or [{"field": ""}]
        return answer.status_code, errors[0]["field"]

    def rest(self, path: str, cursor: str | None, *, limit: int) -> list[Any]:
        """Return the rows of all pages after a cursor."""
        rows: list[Any] = []
        while cursor is not None:
            page = self.page(path, limit=limit, cursor=cursor)
            assert len(page["results"]) <= limit
            rows += page["results"]
            cursor = page["next"]
        return rows


@pytest.fixture
def lists() -> Lists:
    return Lists()


@pytest.mark.parametrize("path", ADD)
def test_pages_hold_every_row_once_in_order(lists: Lists, path: str) -> None:
    for number in range(5):
        ADD[path](lists.run, number)
    whole = lists.page(path)

    assert len(whole["results"]) >= 5
    assert whole["next"] is None
    for limit in (1, 2):
        first = lists.page(path, limit=limit)
        rest = lists.rest(path, first["next"], limit=limit)
        assert first["results"] + rest == whole["results"]


@pytest.mark.parametrize("path", ADD)
def test_rows_added_between_pages_neither_hide_nor_repeat_others(lists: Lists, path: str) -> None:
    for number in range(1, 5):
        ADD[path](lists.run, number)
    before = lists.page(path)["results"]

    first = lists.page(path, limit=2)
    ADD[path](lists.run, 0)
    ADD[path](lists.run, 7)
    rows = first["results"] + lists.rest(path, first["next"], limit=1)

    texts = [json.dumps(row) for row in rows]
    assert len(set(texts)) == len(texts)
    assert [row for row in rows if row in before] == before


@pytest.mark.parametrize("path", ADD)
def test_a_limit_out_of_range_is_refused(lists: Lists, path: str) -> None:
    ADD[path](lists.run, 0)
    most = parameters(path)["limit"]["maximum"]

    assert lists.get(path, limit=most).status_code == 200
    for limit in ("0", "-1", "x", str(most + 1)):
        assert lists.refused(path, limit=limit) == (400, "limit")


@pytest.mark.parametrize("path", ADD)
def test_a_cursor_of_another_list_is_refused(lists: Lists, path: str) -> None:
    for number in range(2):
        ADD[path](lists.run, number)
        ADD["/api/v1/runs"](lists.run, 5 + number)
        ADD["/api/v1/segments"](lists.run, 5 + number)
    other = "/api/v1/runs" if path == "/api/v1/segments" else "/api/v1/segments"
    foreign = lists.page(other, limit=1)["next"]

    assert lists.refused(path, cursor=foreign) == (400, "cursor")
    assert lists.refused(path, cursor="nonsense") == (400, "cursor")


def test_a_cursor_is_refused_with_other_filters_and_for_another_run(lists: Lists) -> None:
    make_run(name="beta")
    for number in range(3):
        ADD["/api/v1/runs"](lists.run, number)
        ADD[f"{RUN}/events"](lists.run, number)
    runs, events = (lists.page(path, limit=1)["next"] for path in ("/api/v1/runs", f"{RUN}/events"))

    assert lists.refused("/api/v1/runs", cursor=runs, sort="name") == (400, "cursor")
    assert lists.refused("/api/v1/runs", cursor=runs, q="run") == (400, "cursor")
    assert lists.refused("/api/v1/runs/beta/events", cursor=events) == (400, "cursor")
    assert lists.get("/api/v1/runs", cursor=runs, limit=7, q="").status_code == 200
