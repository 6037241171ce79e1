"""A second registration with other settings changes nothing, and raises an event and an alert."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runs.alerts.services.alerts import watch
from runs.lifecycle.models import Run
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from tests.buffer_factories import REGISTRATION
from tests.factories import bearer

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def outside() -> OutsideRun:
    return make_words_run()


def register(outside: OutsideRun, token: dict[str, str], **changed: Any) -> None:
    answer = outside.post("/atropos/words/register", REGISTRATION | changed, **token)
    assert answer.status_code == 200, answer.content
    assert set(answer.json()) == {"uuid"}


def events(outside: OutsideRun) -> list[dict[str, Any]]:
    return [
        one for one in outside.get("events")["results"] if one["kind"] == "registration_differs"
    ]


def alerts(outside: OutsideRun) -> list[str]:
    """Return the messages of the open alerts after a check of all conditions."""
    watch(now=NOON)
    found = outside.operator.get("/api/v1/alerts?kind=registration_differs&state=open").json()
    return [one["message"] for one in found["results"]]


def test_the_difference_is_named_once_per_trainer(outside: OutsideRun) -> None:
    second = bearer("trainer", run=outside.run)
    register(outside, second, batch_size=32, num_steps=7)

    run = Run.objects.get()
    assert (run.batch_size, run.num_steps) == (4, 100)
    [event] = events(outside)
    assert event["level"] == "warning"
    assert event["details"] == {
        "batch_size": {"registered": 32, "run": 4},
        "num_steps": {"registered": 7, "run": 100},
    }
    [message] = alerts(outside)
    assert message.endswith("registered with batch_size 32, not 4; num_steps 7, not 100")


def test_equal_settings_raise_nothing(outside: OutsideRun) -> None:
    register(outside, bearer("trainer", run=outside.run))
    register(outside, outside.trainer)

    assert events(outside) == []
    assert alerts(outside) == []


def test_the_alert_ends_with_a_registration_of_equal_settings(outside: OutsideRun) -> None:
    register(outside, outside.trainer, batch_size=32)
    before = alerts(outside)
    register(outside, outside.trainer)

    assert len(before) == 1
    assert alerts(outside) == []
