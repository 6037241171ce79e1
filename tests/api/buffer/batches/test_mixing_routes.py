"""Preview of the next batch, and the environment mix."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from buffer.items.models import MixingShare
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_environment
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from tests.buffer_factories import ENVIRONMENT, body
from tests.factories import make_run, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    return make_words_run()


def test_a_preview_shows_the_next_batch_and_leases_nothing(outside: OutsideRun) -> None:
    outside.push(mark=1)
    outside.push(mark=2, tokens=9)
    outside.push(mark=3)
    before = outside.get("ledger")

    seen = outside.get("batches/preview")

    assert outside.get("ledger") == before
    assert seen["reason"] is None
    assert (seen["items"], seen["sequences"], seen["sizes"]) == (2, 4, {"2": 2})
    assert (seen["composition"], seen["shares"]) == ({"": 4}, {"": 1.0})
    assert seen["padding"] == pytest.approx(1 - (2 * 3 + 2 * 9) / (4 * 9))
    assert seen["oldest_at"] <= seen["newest_at"]
    batch = outside.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [1, 2]
    row = outside.get("batches")["results"][0]
    assert (row["padding"], row["composition"]) == (seen["padding"], seen["composition"])


def test_a_preview_has_the_reason_for_a_missing_batch(outside: OutsideRun) -> None:
    outside.push()
    assert outside.get("batches/preview")["reason"] == "too_few"
    outside.push(sequences=3)
    assert outside.get("batches/preview")["reason"] == "no_exact_fill"
    outside.push()
    outside.next()
    for _ in range(2):
        outside.push()
    register_environment(
        run_id=outside.run.pk,
        desired_name="math",
        weight=1.0,
        max_token_length=64,
        group_size=2,
        min_batch_allocation=0.5,
        now=datetime.now(UTC),
    )

    seen = outside.get("batches/preview")

    assert (seen["reason"], seen["waiting_for"]) == ("waiting_for_minimum", [0])
    assert seen["waits_until"] is not None
    assert not MixingShare.objects.exclude(blocks_since=None).exists()


def test_a_preview_names_the_released_batch(outside: OutsideRun) -> None:
    outside.push(mark=1)
    outside.push(mark=2)
    batch = outside.next()
    outside.lapse()

    seen = outside.get("batches/preview")

    assert (seen["retried_batch"], seen["items"]) == (batch["batch"]["id"], 2)


def test_a_run_without_a_trainer_has_no_next_batch() -> None:
    make_run(name="words", kind="outside")
    operator = Client()
    operator.force_login(make_user(role="operator"))

    seen = operator.get("/api/v1/runs/words/batches/preview").json()

    assert (seen["reason"], seen["batch_size"]) == ("unregistered", None)


def test_a_fleet_has_no_mixing(outside: OutsideRun) -> None:
    make_run(name="alpha")

    for path in ("mixing", "batches/preview"):
        answer = outside.operator.get(f"/api/v1/runs/alpha/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "wrong_kind")


def test_mixing_lists_targets_realised_shares_and_debts(outside: OutsideRun) -> None:
    outside.push()
    outside.push()
    outside.next()
    for weight in (3.0, 1.0):
        outside.post("/atropos/words/register-env", ENVIRONMENT | {"weight": weight})
    outside.push(env_id=1)

    shown = outside.get("mixing")

    assert (shown["batch_size"], shown["dry_deadline_seconds"]) == (4, 30.0)
    rows = {row["env_id"]: row for row in shown["environments"]}
    assert {e: row["target"] for e, row in rows.items()} == {None: 0.0, 0: 0.75, 1: 0.25}
    assert {e: row["realised"] for e, row in rows.items()} == {None: 1.0, 0: 0.0, 1: 0.0}
    assert (rows[1]["name"], rows[1]["queued_sequences"]) == ("math_1", 2)


def change(outside: OutsideRun, content: Any) -> Any:
    return outside.operator.patch(
        "/api/v1/runs/words", data=body(content), content_type="application/json"
    )


def test_the_deadline_of_minimums_is_a_setting_of_the_run(outside: OutsideRun) -> None:
    changed = change(outside, {"dry_deadline_seconds": None})

    assert (changed.status_code, changed.json()["dry_deadline_seconds"]) == (200, None)
    event = RunEvent.objects.get(kind="settings_changed")
    assert event.details == {"dry_deadline_seconds": {"before": 30.0, "after": None}}
    assert event.actor == "user:olga"
    assert change(outside, {}).status_code == 200
    assert change(outside, {"dry_deadline_seconds": None}).status_code == 200
    assert RunEvent.objects.filter(kind="settings_changed").count() == 1


@pytest.mark.parametrize(
    "wrong", [{"dry_deadline_seconds": -1}, {"dry_deadline_seconds": "x"}, {"batch_size": 0}]
)
def test_an_impossible_setting_is_refused_and_changes_nothing(
    outside: OutsideRun, wrong: dict[str, Any]
) -> None:
    answer = change(outside, wrong)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == next(iter(wrong))
    assert Run.objects.get(pk=outside.run.pk).dry_deadline_seconds == 30.0


def test_settings_of_an_ended_run_are_read_only(outside: OutsideRun) -> None:
    Run.objects.filter(pk=outside.run.pk).update(status="stopped")

    answer = change(outside, {"dry_deadline_seconds": 1})

    assert (answer.status_code, answer.json()["code"]) == (409, "run_over")
