"""What a person sees of batches and decides about them, and what a trainer never sees."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from buffer import jobs, selectors
from buffer.models import Batch, MixingShare, TrajectoryGroup
from rolldeck import wire
from runs import services as runs_services
from runs.models import Run, RunEvent
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, fragment, group, push
from tests.factories import NOON, bearer, make_run, make_user

pytestmark = pytest.mark.django_db(transaction=True)


class Deck:
    """One outside run as its environments, two trainers and an operator use it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.client = Client()
        self.trainer = bearer("trainer", run=run)
        self.operator = Client()
        self.operator.force_login(make_user(username="olga", role="operator"))

    def post(self, path: str, content: Any, **headers: str) -> Any:
        return self.client.post(
            path, data=body(content), content_type="application/json", headers=headers
        )

    def push(self, *, mark: int = 1, **fields: Any) -> None:
        answer = self.post("/atropos/words/scored_data", group(mark=mark, **fields))
        assert answer.status_code == 200, answer.content

    def next(self, trainer: dict[str, str] | None = None) -> Any:
        """Return the next batch as JSON, or None."""
        answer = self.post(
            "/api/runs/words/batches/next",
            {},
            **((trainer or self.trainer) | {"Accept": "application/json"}),
        )
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.content
        return answer.json()

    def ack(self, batch: Any) -> Any:
        head = batch["batch"]
        return self.post(
            f"/api/runs/words/batches/{head['id']}/ack", {"fence": head["fence"]}, **self.trainer
        )

    def get(self, path: str) -> Any:
        answer = self.operator.get(f"/api/runs/words/{path}")
        assert answer.status_code == 200, answer.content
        return answer.json()

    def decide(self, verb: str, batch_id: str) -> Any:
        return self.operator.post(f"/api/runs/words/batches/{batch_id}/{verb}")

    def lapse(self) -> None:
        Batch.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
        jobs.reclaim_lapsed_leases()


@pytest.fixture
def deck() -> Deck:
    run = make_run(name="words", kind="outside")
    found = Deck(run)
    registered = found.post("/atropos/words/register", REGISTRATION, **found.trainer)
    assert registered.status_code == 200, registered.content
    run.refresh_from_db()
    return found


def corrupt(group_id: int) -> None:
    """Flip one bit of a stored payload."""
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE buffer_payload
            SET content = set_byte(content, 12, get_byte(content, 12) # 1)
            WHERE kind = 'groups' AND item_id = %s""",
            [group_id],
        )
        assert cursor.rowcount == 1


def quarantined(deck: Deck) -> Any:
    """Return a batch whose lease has lapsed three times."""
    deck.push(mark=1)
    deck.push(mark=2)
    for _ in range(3):
        batch = deck.next()
        assert batch is not None
        deck.lapse()
    return batch


def test_a_batch_that_lapses_three_times_is_quarantined_with_an_alert(deck: Deck) -> None:
    batch = quarantined(deck)

    assert deck.next() is None
    (row,) = deck.get("batches")["results"]
    assert (row["state"], row["lapses"], row["id"]) == ("quarantined", 3, batch["batch"]["id"])
    ledger = deck.get("ledger")["groups"]
    assert (ledger["quarantined"], ledger["leased"], ledger["balanced"]) == (2, 0, True)
    assert selectors.miscounts(deck.run.pk) == []
    alert = RunEvent.objects.get(kind="batch_quarantined")
    assert (alert.level, alert.details["items"]) == ("error", 2)


def test_one_batch_in_quarantine_does_not_stop_the_next(deck: Deck) -> None:
    first = quarantined(deck)
    deck.push(mark=3)
    deck.push(mark=4)

    second = deck.next()

    assert second is not None
    assert second["batch"]["ordinal"] == first["batch"]["ordinal"] + 1
    assert [item["tokens"][0][0] for item in second["items"]] == [3, 4]


def test_a_released_batch_goes_back_to_the_head_of_the_queue(deck: Deck) -> None:
    batch = quarantined(deck)
    deck.push(mark=3)

    released = deck.decide("release", batch["batch"]["id"])

    assert (released.status_code, released.json()["state"]) == (200, "dropped")
    assert deck.get("mixing")["environments"][0]["sequences"] == 0
    again = deck.next()
    assert again is not None
    assert [item["tokens"][0][0] for item in again["items"]] == [1, 2]
    assert again["batch"]["id"] != batch["batch"]["id"]
    assert deck.ack(again).status_code == 200
    assert selectors.miscounts(deck.run.pk) == []
    assert deck.get("ledger")["groups"]["served"] == 2


def test_a_discarded_batch_is_dropped_as_poison(deck: Deck) -> None:
    batch = quarantined(deck)

    discarded = deck.decide("discard", batch["batch"]["id"])
    twice = deck.decide("release", batch["batch"]["id"])

    assert discarded.status_code == 200
    assert (twice.status_code, twice.json()["code"]) == (409, "not_quarantined")
    ledger = deck.get("ledger")["groups"]
    assert (ledger["dropped"], ledger["quarantined"]) == ({"poison": 2}, 0)
    assert deck.next() is None
    assert selectors.miscounts(deck.run.pk) == []


def test_who_trained_on_a_quarantined_batch_after_all_may_still_say_so(deck: Deck) -> None:
    batch = quarantined(deck)

    assert deck.ack(batch).status_code == 200

    assert deck.get("ledger")["groups"]["served"] == 2
    assert selectors.miscounts(deck.run.pk) == []


def test_fragments_are_quarantined_and_released_as_well() -> None:
    run = make_run(name="alpha", epoch=1, policy_step=0, batch_size=1, max_staleness=1)
    client, trainer = Client(), bearer("trainer", run=run)
    client.post(
        "/api/runs/alpha/trainers",
        data=body({"name": "t", "resume": True}),
        content_type="application/json",
        headers=trainer,
    )
    client.post(
        "/api/runs/alpha/fragments",
        data=push(fragment()),
        content_type=wire.FRAGMENTS_TYPE,
        headers=bearer("worker", run=run),
    )
    next_url = "/api/runs/alpha/batches/next"
    for _ in range(3):
        answer = client.post(next_url, content_type="application/json", headers=trainer)
        assert answer.status_code == 200
        Batch.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
        jobs.reclaim_lapsed_leases()
    assert selectors.ledger_part(run.pk)["fragments"]["quarantined"] == 1
    head = msgspec.msgpack.decode(answer.content, type=wire.BatchAnswer).batch

    released = client.post(f"/api/runs/alpha/batches/{head.id}/release", headers=bearer("admin"))

    assert released.status_code == 200
    answer = client.post(next_url, content_type="application/json", headers=trainer)
    assert answer.status_code == 200
    assert selectors.miscounts(run.pk) == []


@pytest.mark.parametrize("stock", [False, True], ids=["by id", "stock"])
def test_corrupt_bytes_are_never_served(deck: Deck, stock: bool) -> None:
    for mark in range(3):
        deck.push(mark=mark)
    first = TrajectoryGroup.objects.order_by("id")[0]
    corrupt(first.pk)

    if stock:
        answer = deck.client.get("/atropos/words/batch", headers=deck.trainer)
        items = msgspec.json.decode(answer.content)["batch"]
    else:
        items = deck.next()["items"]

    assert [item["tokens"][0][0] for item in items] == [1, 2]
    first.refresh_from_db()
    assert (first.state, first.drop_reason) == ("dropped", "corrupt")
    assert RunEvent.objects.get(kind="items_corrupt").level == "error"
    assert selectors.miscounts(deck.run.pk) == []
    assert deck.get("mixing")["environments"][0]["sequences"] == 4


def test_without_another_item_for_a_corrupt_one_there_is_no_batch_yet(deck: Deck) -> None:
    deck.push(mark=1)
    deck.push(mark=2)
    corrupt(TrajectoryGroup.objects.order_by("id")[1].pk)

    assert deck.next() is None

    assert deck.get("ledger")["groups"]["queued"] == 1
    deck.push(mark=3)
    batch = deck.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [1, 3]


def test_a_preview_shows_the_next_batch_and_takes_nothing(deck: Deck) -> None:
    deck.push(mark=1)
    deck.push(mark=2, tokens=9)
    deck.push(mark=3)
    before = deck.get("ledger")

    seen = deck.get("batches/preview")

    assert deck.get("ledger") == before
    assert seen["reason"] is None
    assert (seen["items"], seen["sequences"], seen["sizes"]) == (2, 4, {"2": 2})
    assert (seen["composition"], seen["shares"]) == ({"": 4}, {"": 1.0})
    assert seen["padding"] == pytest.approx(1 - (2 * 3 + 2 * 9) / (4 * 9))
    assert seen["oldest_at"] <= seen["newest_at"]
    batch = deck.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [1, 2]
    row = deck.get("batches")["results"][0]
    assert (row["padding"], row["composition"]) == (seen["padding"], seen["composition"])


def test_a_preview_says_why_there_is_no_batch(deck: Deck) -> None:
    deck.push()
    assert deck.get("batches/preview")["reason"] == "too_few"
    deck.push(sequences=3)
    assert deck.get("batches/preview")["reason"] == "no_exact_fill"
    deck.push()
    deck.next()
    for _ in range(2):
        deck.push()
    runs_services.register_environment(
        run_id=deck.run.pk,
        desired_name="math",
        weight=1.0,
        max_token_length=64,
        group_size=2,
        min_batch_allocation=0.5,
        now=NOON,
    )

    seen = deck.get("batches/preview")

    assert (seen["reason"], seen["waiting_for"]) == ("waiting_for_minimum", [0])
    assert seen["waits_until"] is not None
    assert not MixingShare.objects.exclude(blocks_since=None).exists()


def test_a_preview_names_the_batch_that_came_back(deck: Deck) -> None:
    deck.push(mark=1)
    deck.push(mark=2)
    batch = deck.next()
    deck.lapse()

    seen = deck.get("batches/preview")

    assert (seen["comes_again"], seen["items"]) == (batch["batch"]["id"], 2)


def test_a_run_without_a_trainer_has_no_next_batch() -> None:
    make_run(name="words", kind="outside")
    operator = Client()
    operator.force_login(make_user(role="operator"))

    seen = operator.get("/api/runs/words/batches/preview").json()

    assert (seen["reason"], seen["batch_size"]) == ("unregistered", None)


def test_a_fleet_has_no_mixing(deck: Deck) -> None:
    make_run(name="alpha")

    for path in ("mixing", "batches/preview"):
        answer = deck.operator.get(f"/api/runs/alpha/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "wrong_kind")


def test_mixing_shows_targets_what_was_realised_and_debts(deck: Deck) -> None:
    deck.push()
    deck.push()
    deck.next()
    for weight in (3.0, 1.0):
        deck.post("/atropos/words/register-env", ENVIRONMENT | {"weight": weight})
    deck.push(env_id=1)

    shown = deck.get("mixing")

    assert (shown["batch_size"], shown["dry_deadline_seconds"]) == (4, 30.0)
    rows = {row["env_id"]: row for row in shown["environments"]}
    assert {e: row["target"] for e, row in rows.items()} == {None: 0.0, 0: 0.75, 1: 0.25}
    assert {e: row["realised"] for e, row in rows.items()} == {None: 1.0, 0: 0.0, 1: 0.0}
    assert (rows[1]["name"], rows[1]["queued_sequences"]) == ("math_1", 2)


def change(deck: Deck, content: Any) -> Any:
    return deck.operator.patch(
        "/api/runs/words", data=body(content), content_type="application/json"
    )


def test_how_long_a_minimum_may_hold_batches_back_is_set_on_the_run(deck: Deck) -> None:
    changed = change(deck, {"dry_deadline_seconds": None})

    assert (changed.status_code, changed.json()["dry_deadline_seconds"]) == (200, None)
    event = RunEvent.objects.get(kind="settings_changed")
    assert event.details == {"dry_deadline_seconds": {"before": 30.0, "after": None}}
    assert event.actor == "user:olga"
    assert change(deck, {}).status_code == 200
    assert change(deck, {"dry_deadline_seconds": None}).status_code == 200
    assert RunEvent.objects.filter(kind="settings_changed").count() == 1


@pytest.mark.parametrize(
    "wrong", [{"dry_deadline_seconds": -1}, {"dry_deadline_seconds": "x"}, {"batch_size": 3}]
)
def test_an_impossible_setting_is_refused_and_changes_nothing(
    deck: Deck, wrong: dict[str, Any]
) -> None:
    answer = change(deck, wrong)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == next(iter(wrong))
    assert Run.objects.get(pk=deck.run.pk).dry_deadline_seconds == 30.0


def test_the_settings_of_a_run_that_is_over_are_history(deck: Deck) -> None:
    Run.objects.filter(pk=deck.run.pk).update(status="stopped")

    answer = change(deck, {"dry_deadline_seconds": 1})

    assert (answer.status_code, answer.json()["code"]) == (409, "run_over")
