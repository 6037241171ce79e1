"""Change the limits of an active run, which records an event."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from tests.factories import make_run

pytestmark = pytest.mark.django_db


def change(operator: APIClient, **body: Any) -> Any:
    return operator.patch("/api/v1/runs/alpha", body, format="json")


def test_changed_settings_have_an_event_with_actor_and_reason(operator: APIClient) -> None:
    run = make_run(kind="outside")

    answer = change(operator, max_age_seconds=90, max_staleness=4, reason="policy drifts")

    assert answer.status_code == 200, answer.content
    assert (answer.json()["max_age_seconds"], answer.json()["max_staleness"]) == (90.0, 4)
    assert answer.json()["off_policy_tolerance"] == run.off_policy_tolerance
    event = RunEvent.objects.latest("id")
    assert (event.kind, event.actor, event.reason) == (
        "settings_changed",
        "user:olga",
        "policy drifts",
    )
    assert event.message == "max_age_seconds none → 90.0, max_staleness none → 4"
    assert event.details["max_staleness"] == {"before": None, "after": 4}


def test_null_removes_a_limit(operator: APIClient) -> None:
    make_run(kind="outside", max_staleness=3)

    assert change(operator, max_staleness=None).json()["max_staleness"] is None


def test_an_unchanged_setting_emits_no_event(operator: APIClient) -> None:
    make_run(max_staleness=3)
    events = RunEvent.objects.count()

    assert change(operator, max_staleness=3).status_code == 200
    assert RunEvent.objects.count() == events


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max_staleness": -1}, "max_staleness"),
        ({"max_age_seconds": 0}, "max_age_seconds"),
        ({"off_policy_tolerance": None}, "off_policy_tolerance"),
        ({"exact_queue_size": "yes"}, "exact_queue_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"runtime_env": {"pip": ["x"]}}, "runtime_env"),
    ],
)
def test_an_invalid_value_is_refused_with_its_field_and_nothing_changes(
    operator: APIClient, body: dict[str, Any], field: str
) -> None:
    make_run(kind="outside")
    before = Run.objects.values().get()

    answer = change(operator, lease_seconds=5.0, **body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert Run.objects.values().get() == before


@pytest.mark.parametrize(
    ("body", "field", "remedy"),
    [
        ({"max_staleness": 1}, "max_staleness", "set max_staleness to 2 or more"),
        ({"num_workers": 2}, "num_workers", "set max_staleness to 4 or more"),
        (
            {"max_staleness": None, "off_policy_tolerance": 2.5},
            "max_staleness",
            "set off_policy_tolerance to 2.54 or more",
        ),
    ],
)
def test_limits_under_which_no_batch_becomes_complete_are_refused(
    operator: APIClient, body: dict[str, Any], field: str, remedy: str
) -> None:
    # 8 slots need 56 + 32 - 8 + 1 = 81 fragments; 3 · 32 are admitted.
    replay = {"fragments_per_chunk": 8}
    make_run(config={"buffer": {"batch_size": 32, "max_staleness": 2, "replay": replay}})
    before = Run.objects.values().get()

    answer = change(operator, **body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert remedy in answer.json()["errors"][0]["message"]
    assert Run.objects.values().get() == before
    assert change(operator, max_staleness=4, num_workers=2).status_code == 200
    assert change(operator, max_staleness=3, num_workers=1).status_code == 200


def test_a_tolerance_below_one_batch_is_refused_for_a_fleet_without_staleness_limit(
    operator: APIClient,
) -> None:
    make_run(max_staleness=None)

    answer = change(operator, off_policy_tolerance=0.5)

    assert answer.status_code == 400
    assert answer.json()["errors"][0] == {
        "field": "off_policy_tolerance",
        "message": "off_policy_tolerance · batch_size admits 8 of 16 fragments: set "
        "off_policy_tolerance to 1 or more",
    }


def test_settings_of_an_ended_run_cannot_change(operator: APIClient) -> None:
    make_run(status=RunStatus.COMPLETED)

    answer = change(operator, lenient=True)

    assert (answer.status_code, answer.json()["code"]) == (409, "run_over")
    assert not Run.objects.get().lenient


def test_a_fleet_is_resized_without_a_change_of_its_configuration(operator: APIClient) -> None:
    run = make_run(config={"fleet": {"num_workers": 2}}, num_workers=2)

    answer = change(operator, num_workers=5, reason="more data")

    assert answer.json()["num_workers"] == 5
    assert Run.objects.get().config == run.config
    event = RunEvent.objects.latest("id")
    assert (event.kind, event.message) == ("settings_changed", "num_workers 2 → 5")


@pytest.mark.parametrize("wrong", [0, 4097, None, "2"])
def test_a_fleet_has_one_to_4096_workers(operator: APIClient, wrong: Any) -> None:
    make_run(num_workers=2)

    assert change(operator, num_workers=wrong).json()["errors"][0]["field"] == "num_workers"
    assert Run.objects.get().num_workers == 2


def test_an_outside_run_has_no_workers_to_change(operator: APIClient) -> None:
    make_run(kind="outside")

    answer = change(operator, num_workers=2)

    assert (answer.status_code, answer.json()["code"]) == (409, "no_fleet")
