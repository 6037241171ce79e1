"""Chart annotations by users, and automatic ones for changes of the run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from rollouts.metrics.models import Annotation
from rollouts.metrics.services.metrics import Figure, pack_metrics, store_figures
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import PolicyVersion, Run
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


def test_an_annotation_has_its_time_and_the_last_measured_step(run: Run, olga: Client) -> None:
    measured(run, 1, 2, 3)
    at = (NOON + timedelta(seconds=25)).isoformat()

    answer = write(olga, text=" halved the rate ", at=at)

    assert answer.status_code == 201, answer.content
    (row,) = olga.get(PATH).json()["results"]
    assert row == answer.json() | {"created_by": "olga"}
    assert (row["text"], row["step"], row["is_own"]) == ("halved the rate", 2, True)
    event = RunEvent.objects.get(kind="annotated")
    assert (event.actor, event.run_id) == ("user:olga", run.pk)


def test_a_trainer_may_set_the_step_of_an_annotation(run: Run, olga: Client) -> None:
    answer = Client().post(
        PATH,
        {"text": "new data", "step": 40},
        content_type="application/json",
        headers=bearer("trainer", run=run),
    )

    assert (answer.status_code, answer.json()["step"]) == (201, 40)
    (row,) = olga.get(PATH).json()["results"]
    assert (row["created_by"], row["amount"], row["is_own"]) == ("a token", None, False)


def test_changes_of_the_run_have_positions_on_every_axis(run: Run, olga: Client) -> None:
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


def test_the_author_or_an_operator_may_delete_an_annotation(run: Run, olga: Client) -> None:
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
def test_invalid_annotations_are_refused_with_their_field(
    olga: Client, body: dict[str, Any], field: str
) -> None:
    answer = write(olga, **body)

    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not Annotation.objects.exists()


def test_charts_of_the_fleet_show_launches_ended_workers_and_versions_too(
    run: Run, olga: Client
) -> None:
    measured(run, 1, 2, 3)
    for second, kind in enumerate(["status", "fleet_launched", "worker_failed", "tagged"]):
        at = NOON + timedelta(seconds=second)
        record_event(run_id=run.pk, kind=kind, message=kind, actor="fleet", now=at)
    PolicyVersion.objects.create(
        run=run,
        step=2,
        epoch=0,
        manifest={},
        size_bytes=1,
        published_at=NOON + timedelta(seconds=25),
    )

    plain = olga.get(PATH).json()["events"]
    full = olga.get(f"{PATH}?events=fleet").json()["events"]

    assert [event["kind"] for event in plain] == ["status"]
    shown = [(event["kind"], event["message"], event["step"]) for event in full]
    assert shown == [
        ("status", "status", None),
        ("fleet_launched", "fleet_launched", None),
        ("worker_failed", "worker_failed", None),
        ("weights_version", "version 2 of epoch 0", 2),
    ]


def test_an_unknown_choice_of_events_is_refused_by_name(run: Run, olga: Client) -> None:
    answer = olga.get(f"{PATH}?events=all")

    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert (error["field"], error["message"]) == ("events", "must be one of run, fleet")
