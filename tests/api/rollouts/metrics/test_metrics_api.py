"""Trainers record metrics, and pages read them."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rollouts.metrics.models import MetricSample
from runs.lifecycle.models import Run
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db
URL = "/api/v1/runs/pole/metrics"


@pytest.fixture
def run() -> Run:
    return make_run(name="pole")


def push(run: Run, body: Any, *scopes: str) -> Any:
    return APIClient().post(
        URL, body, format="json", headers=bearer(*(scopes or ("trainer",)), run=run)
    )


def sample(name: str = "loss", step: int = 1, value: Any = 0.5) -> dict[str, Any]:
    return {"name": name, "step": step, "value": value}


def test_samples_are_stored_and_read_back_by_name(run: Run) -> None:
    given = [sample("loss", 1, 0.5), sample("entropy", 1, 0.7), sample("loss", 2, 0.4)]

    answer = push(run, {"samples": given})

    assert (answer.status_code, answer.json()) == (201, {"stored": 3})
    reader = APIClient(headers=bearer("read", run=run))
    read = reader.get(URL, {"names": "loss"})
    rows = read.json()["results"]
    assert [(row["name"], row["step"], row["value"]) for row in rows] == [
        ("loss", 2, 0.4),
        ("loss", 1, 0.5),
    ]
    later = reader.get(URL, {"after_id": rows[1]["id"]})
    assert [row["name"] for row in later.json()["results"]] == ["loss", "entropy"]


def test_metrics_are_listed_by_their_exact_names(run: Run) -> None:
    push(run, {"samples": [sample("loss"), sample("loss/value"), sample("entropy", 3, 0.7)]})
    reader = APIClient(headers=bearer("read", run=run))

    found = reader.get(f"{URL}/keys", {"names": "loss,entropy,unknown"}).json()
    many = reader.get(f"{URL}/keys", {"names": ",".join(f"n{n}" for n in range(51))})

    assert [(one["name"], one["value"]) for one in found["results"]] == [
        ("entropy", 0.7),
        ("loss", 0.5),
    ]
    assert found["total"] == 2
    assert many.status_code == 400
    assert many.json()["errors"][0] == {
        "field": "names",
        "message": "must contain at most 50 metric names",
    }


WRONG = {
    "no samples": ({"samples": []}, "samples"),
    "too many": ({"samples": [sample()] * 1001}, "samples"),
    "a value that is text": ({"samples": [sample(value="x")]}, "samples[0].value"),
    "no value": ({"samples": [{"name": "loss", "step": 1}]}, "samples[0].value"),
    "a name with quotes": ({"samples": [sample(name='"')]}, "samples[0].name"),
    "a negative step": ({"samples": [sample(step=-1)]}, "samples[0].step"),
    "a good one beside a bad": ({"samples": [sample(), sample(step=-1)]}, "samples[1].step"),
}


@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG.keys())
def test_invalid_samples_are_refused_with_their_field_and_not_stored(
    run: Run, body: Any, field: str
) -> None:
    answer = push(run, body)

    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not MetricSample.objects.exists()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(run: Run, value: str) -> None:
    raw = f'{{"samples": [{{"name": "loss", "step": 1, "value": {value}}}]}}'

    answer = APIClient().generic(
        "POST", URL, raw, content_type="application/json", headers=bearer("trainer", run=run)
    )

    assert answer.status_code == 400
    assert not MetricSample.objects.exists()


def test_anonymous_callers_neither_write_nor_read(run: Run) -> None:
    assert APIClient().post(URL, {"samples": [sample()]}, format="json").status_code == 401
    assert APIClient().get(URL).status_code == 401


def test_samples_sent_again_under_their_key_are_stored_once(run: Run) -> None:
    headers = bearer("trainer", run=run) | {"Idempotency-Key": "a key"}
    body = {"samples": [sample()]}

    first = APIClient().post(URL, body, format="json", headers=headers)
    again = APIClient().post(URL, body, format="json", headers=headers)

    assert first.json() == again.json() == {"stored": 1}
    assert again["Idempotent-Replayed"] == "true"
    assert MetricSample.objects.count() == 1


@pytest.mark.parametrize(
    ("scopes", "name", "status"),
    [
        (("env",), "env/math/solved", 201),
        (("env",), "loss", 400),
        (("env",), "environment/solved", 400),
        (("env",), "rolldeck/env/math/reward/mean", 400),
        (("env", "trainer"), "loss", 201),
        (("trainer",), "env/math/solved", 201),
        (("trainer",), "rolldeck/env/math/reward/mean", 400),
        (("admin",), "loss", 201),
        (("worker",), "env/math/solved", 403),
    ],
)
def test_environments_record_metrics_below_their_prefix(
    run: Run, scopes: tuple[str, ...], name: str, status: int
) -> None:
    answer = push(run, {"samples": [sample("env/math/turns"), sample(name)]}, *scopes)

    assert answer.status_code == status
    assert MetricSample.objects.count() == (2 if status == 201 else 0)
    if status == 400:
        assert answer.json()["errors"][0]["field"] == "samples[1].name"
