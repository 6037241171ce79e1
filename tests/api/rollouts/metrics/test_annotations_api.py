"""Chart annotations by users, and automatic ones for changes of the run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.models.annotations import Annotation
from rollouts.metrics.services.metrics import Figure, pack_metrics, store_figures
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run
from tests.factories import NOON, bearer, make_run, make_user

pytestmark = pytest.mark.django_db

PATH = "/api/v1/runs/alpha/annotations"


@pytest.fixture
def run() -> Run:
    return make_run(name="alpha")


@pytest.fixture
def olga(run: Run) -> Client:
    client = Client()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def measured(run: Run, *steps: int) -> None:
    for step in steps:
        at = NOON + timedelta(seconds=10 * step)
        store_figures(run_id=run.pk, figures=[Figure("loss", step, 1.0)], now=at)


def write(client: Client, **body: Any) -> Any:
    return client.post(PATH, body, content_type="application/json")


def test_a_text_stands_at_its_moment_and_at_the_step_that_was_measured_last(
    run: Run, olga: Client
) -> None:
    measured(run, 1, 2, 3)
    at = (NOON + timedelta(seconds=25)).isoformat()

    answer = write(olga, text=" halved the rate ", at=at)

    assert answer.status_code == 201, answer.content
    (row,) = olga.get(PATH).json()["results"]
    assert row == answer.json() | {"created_by": "olga"}
    assert (row["text"], row["step"], row["is_own"]) == ("halved the rate", 2, True)
    event = RunEvent.objects.get(kind="annotated")
    assert (event.actor, event.run_id) == ("user:olga", run.pk)


def test_a_trainer_says_where_it_was_itself(run: Run, olga: Client) -> None:
    answer = Client().post(
        PATH,
        {"text": "new data", "step": 40},
        content_type="application/json",
        headers=bearer("trainer", run=run),
    )

    assert (answer.status_code, answer.json()["step"]) == (201, 40)
    (row,) = olga.get(PATH).json()["results"]
    assert (row["created_by"], row["amount"], row["is_own"]) == ("a token", None, False)


def test_changes_of_the_run_have_places_on_every_axis_packed_or_not(run: Run, olga: Client) -> None:
    for minute in range(13):
        at = NOON + timedelta(minutes=minute)
        figures = [Figure("loss", minute, 0.5) for _ in range(110)]
        store_figures(run_id=run.pk, figures=figures, now=at)
    assert pack_metrics(now=NOON + timedelta(hours=1)) == 1
    for minute, kind in ((2, "status"), (12, "settings_changed"), (12, "weights_published")):
        at = NOON + timedelta(minutes=minute, seconds=30)
        record_event(run_id=run.pk, kind=kind, message=kind, actor="user:ada", now=at)

    events = olga.get(PATH).json()["events"]

    assert [(event["message"], event["step"]) for event in events][-2:] == [
        ("status", 2),
        ("settings_changed", 12),
    ]


def test_its_author_or_an_operator_takes_a_text_away(run: Run, olga: Client) -> None:
    headers = bearer("trainer", "read", run=run)
    bob = Client()
    bob.force_login(make_user(username="bob", role="viewer"))
    row = write(olga, text="mine").json()["id"]

    assert bob.delete(f"{PATH}/{row}").status_code == 403
    assert Client().delete(f"{PATH}/{row}", headers=headers).status_code == 403
    assert olga.delete(f"{PATH}/{row}?reason=wrong").status_code == 204
    assert olga.delete(f"{PATH}/{row}").status_code == 404
    assert olga.get(PATH).json()["results"] == []
    assert Annotation.objects.get().deleted_by == "user:olga"
    assert RunEvent.objects.get(kind="annotation_deleted").reason == "wrong"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "  "}, "text"),
        ({"text": "x" * 201}, "text"),
        ({"text": "a", "at": "2026-03-01T12:00:00"}, "at"),
        ({"text": "a", "at": (datetime.now(UTC) + timedelta(days=1)).isoformat()}, "at"),
        ({"text": "a", "step": -1}, "step"),
    ],
)
def test_what_cannot_be_written_is_refused_by_field(
    olga: Client, body: dict[str, Any], field: str
) -> None:
    answer = write(olga, **body)

    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not Annotation.objects.exists()
