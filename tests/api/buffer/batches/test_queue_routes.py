"""Gates that pause producers, batch items, and release or discard of expired batches."""

import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now

from buffer.items.models import Batch
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from tests.buffer_factories import ENVIRONMENT, arrays, body, fragment, push
from tests.factories import bearer, make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    """A run whose batches are four sequences, so twelve may wait."""
    outside = make_words_run()
    outside.next()
    joined = outside.post("/atropos/words/register-env", ENVIRONMENT)
    assert joined.json()["env_id"] == 0
    return outside


def fill(outside: OutsideRun, *, groups: int) -> None:
    for mark in range(groups):
        outside.push(mark=mark + 1, env_id=0)
    # Pacing is judged when an environment asks.
    assert outside.client.get("/atropos/words/status-env?env_id=0").status_code == 200


def test_a_queue_within_its_tolerance_pauses_no_environment(outside: OutsideRun) -> None:
    fill(outside, groups=2)

    queue = outside.get("queue")

    assert (queue["paused"], queue["since"], queue["resumes_in_seconds"]) == (False, None, None)
    assert [gate["condition"] for gate in queue["gates"]] == [
        "queued 4 < tolerance × batch = 3 × 4 = 12"
    ]
    assert queue["unit"] == "sequences"


def test_a_pause_has_reason_actor_time_and_duration(outside: OutsideRun) -> None:
    changed = outside.operator.patch(
        "/api/v1/runs/words",
        data=body({"off_policy_tolerance": 2.0, "reason": "fresher data"}),
        content_type="application/json",
    )
    assert changed.status_code == 200
    fill(outside, groups=6)
    assert outside.next() is not None

    queue = outside.get("queue")

    assert queue["paused"]
    assert queue["gates"][0]["condition"] == "queued 8 ≥ tolerance × batch = 2 × 4 = 8"
    assert queue["since"] is not None
    assert (queue["set_by"]["actor"], queue["set_by"]["reason"]) == ("user:olga", "fresher data")
    assert (queue["leased"], queue["leased_sequences"]) == (2, 4)
    assert queue["trained_per_second"] == pytest.approx(4 / 120)
    assert queue["resumes_in_seconds"] == pytest.approx(4 / (4 / 120))
    (row,) = queue["environments"]
    assert (row["name"], row["queued"], row["queued_sequences"]) == ("math_0", 4, 8)
    assert row["oldest_at"] is not None


def test_the_queue_has_ledger_and_next_batch_of_the_same_moment(outside: OutsideRun) -> None:
    fill(outside, groups=3)
    outside.next()

    queue = outside.get("queue")

    ledger, next_batch = queue["ledger"], queue["next_batch"]
    assert (ledger["groups"]["queued"], ledger["groups"]["leased"]) == (1, 2)
    assert (ledger["sequences"]["queued"], ledger["sequences"]["leased"]) == (2, 4)
    assert (ledger["sequences"]["accepted"], ledger["sequences"]["balanced"]) == (6, True)
    assert queue["queued_sequences"] == next_batch["queued_sequences"] == 2
    assert sum(row["queued_sequences"] for row in queue["environments"]) == 2
    assert (next_batch["reason"], next_batch["batch_size"]) == ("too_few", 4)
    assert next_batch == outside.get("batches/preview")
    assert queue["at"]


def test_the_figures_of_the_queue_agree_while_groups_are_pushed(outside: OutsideRun) -> None:
    pushes = threading.Thread(target=push_repeatedly, args=(outside, 40))
    pushes.start()
    seen = set()
    while pushes.is_alive():
        queue = outside.get("queue")
        figures = {
            queue["queued_sequences"],
            queue["ledger"]["sequences"]["queued"],
            queue["next_batch"]["queued_sequences"],
            sum(row["queued_sequences"] for row in queue["environments"]),
        }
        assert len(figures) == 1, figures
        assert queue["ledger"]["sequences"]["balanced"]
        seen |= figures
    pushes.join()

    assert len(seen) > 3, "the queue did not change while it was read"


def push_repeatedly(outside: OutsideRun, count: int) -> None:
    try:
        for mark in range(count):
            outside.push(mark=100 + mark, env_id=0)
    finally:
        connection.close()


def test_items_of_an_expired_lease_are_counted_apart(outside: OutsideRun) -> None:
    fill(outside, groups=2)
    outside.next()
    assert outside.get("ledger")["expired"] == 0

    outside.lapse()

    ledger = outside.get("queue")["ledger"]
    assert (ledger["expired"], ledger["sequences"]["leased"]) == (4, 4)
    assert ledger["sequences"]["balanced"]
    outside.next()
    assert outside.get("queue")["ledger"]["expired"] == 0


def test_the_ledger_of_an_environment_has_sequences(outside: OutsideRun) -> None:
    fill(outside, groups=3)

    (row,) = outside.get("ledger")["environments"]

    assert (row["queued"], row["sequences"]["queued"]) == (3, 6)
    assert row["sequences"]["accepted"] == 6


def test_a_pause_ends_after_its_duration(outside: OutsideRun) -> None:
    fill(outside, groups=6)
    assert Run.objects.get(pk=outside.run.pk).over_tolerance_at is not None
    outside.next()
    outside.ack(outside.next())
    outside.next()

    outside.client.get("/atropos/words/status-env?env_id=0")

    assert Run.objects.get(pk=outside.run.pk).over_tolerance_at is None


def test_the_queue_of_a_fleet_has_the_staleness_gate() -> None:
    run = make_run(name="alpha", epoch=1, policy_step=0)
    worker, reader = bearer("worker", run=run), bearer("read")
    outside = OutsideRun(run)
    pushed = outside.client.post(
        "/api/v1/runs/alpha/fragments",
        data=push(*(fragment(number=n, arrays=arrays(4)) for n in range(3))),
        content_type="application/msgpack",
        headers=worker,
    )
    assert pushed.status_code in {200, 201}, pushed.content

    queue = outside.client.get("/api/v1/runs/alpha/queue", headers=reader).json()

    (gate,) = queue["gates"]
    assert gate["rule"] == "staleness"
    assert gate["condition"] == "accepted 3 < (2 ahead + 0 trained) × 16 = 32"
    assert [row["name"] for row in queue["environments"]] == ["gymnasium:CartPole-v1"]
    assert queue["set_by"]["is_initial"]


def test_batches_are_read_page_by_page_and_by_state(outside: OutsideRun) -> None:
    for mark in range(6):
        outside.push(mark=mark + 1, env_id=0)
    first, second, third = served(outside, 3)

    page = outside.get("batches?limit=2")
    rest = outside.get(f"batches?limit=2&cursor={page['next']}")

    ids = [first["batch"]["id"], second["batch"]["id"], third["batch"]["id"]]
    assert [row["id"] for row in [*page["results"], *rest["results"]]] == ids[::-1]
    assert [row["id"] for row in outside.get("batches?state=leased")["results"]] == [ids[-1]]
    refused = outside.operator.get("/api/v1/runs/words/batches?state=lost")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "state")


def served(outside: OutsideRun, count: int) -> list[Any]:
    """Return batches of which all but the last are confirmed."""
    results: list[Any] = []
    for _ in range(count):
        if results:
            outside.ack(results[-1])
        results.append(outside.next())
    return results


def test_a_batch_shows_its_groups_without_their_bytes(outside: OutsideRun) -> None:
    fill(outside, groups=2)
    batch = outside.next()

    shown = outside.get(f"batches/{batch['batch']['id']}/items")

    assert shown["batch"]["ordinal"] == batch["batch"]["ordinal"]
    assert [row["position"] for row in shown["results"]] == [0, 1]
    first = shown["results"][0]
    assert (first["environment"], first["sequences"], first["tokens"]) == ("math_0", 2, 6)
    assert first["state"] == "leased"
    missing = outside.operator.get(f"/api/v1/runs/words/batches/{uuid4()}/items")
    assert missing.status_code == 404


@pytest.mark.parametrize("swept", [False, True])
def test_an_expired_batch_may_be_queued_again(outside: OutsideRun, swept: bool) -> None:
    batch = left_alone(outside, swept=swept)

    answer = outside.decide("release", batch, reason="the trainer is gone")

    assert (answer.status_code, answer.json()["state"]) == (200, "dropped")
    assert outside.get("ledger")["groups"]["queued"] == 2
    event = RunEvent.objects.get(kind="batch_released")
    assert (event.actor, event.reason) == ("user:olga", "the trainer is gone")
    assert miscounts(outside.run.pk) == []


def test_an_expired_batch_may_be_discarded(outside: OutsideRun) -> None:
    batch = left_alone(outside, swept=True)

    assert outside.decide("discard", batch, reason="bad rewards").status_code == 200

    assert outside.get("ledger")["groups"]["dropped"] == {"discarded": 2}
    assert RunEvent.objects.get(kind="batch_discarded").reason == "bad rewards"
    assert miscounts(outside.run.pk) == []


@pytest.mark.parametrize("verb", ["release", "discard"])
def test_a_leased_batch_is_neither_queued_again_nor_discarded(
    outside: OutsideRun, verb: str
) -> None:
    fill(outside, groups=2)
    batch = outside.next()["batch"]["id"]

    answer = outside.decide(verb, batch)

    assert (answer.status_code, answer.json()["code"]) == (409, "not_quarantined")


def left_alone(outside: OutsideRun, *, swept: bool) -> str:
    """Return the id of a batch with an expired lease; `swept`: already returned to the queue."""
    fill(outside, groups=2)
    batch: str = outside.next()["batch"]["id"]
    if swept:
        outside.lapse()
    else:
        Batch.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    return batch
