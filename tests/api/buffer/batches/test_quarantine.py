"""Quarantined and corrupt batches, and their release or discard."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from buffer import jobs
from buffer.items.models import Batch, TrajectoryGroup
from buffer.items.queries import ledger_part
from rolldeck import wire
from runs.access.models import User
from runs.events.models import RunEvent
from tests.api.buffer.outside_run import OutsideRun, make_words_run
from tests.buffer_factories import body, fragment, push
from tests.factories import bearer, make_run, make_user
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outside() -> OutsideRun:
    return make_words_run()


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


def quarantined(outside: OutsideRun) -> Any:
    """Return a batch whose lease has expired three times."""
    outside.push(mark=1)
    outside.push(mark=2)
    for _ in range(3):
        batch = outside.next()
        assert batch is not None
        outside.lapse()
    return batch


def test_a_batch_whose_lease_expires_three_times_is_quarantined_with_an_alert(
    outside: OutsideRun,
) -> None:
    batch = quarantined(outside)

    assert outside.next() is None
    (row,) = outside.get("batches")["results"]
    assert (row["state"], row["lease_expiries"], row["id"]) == (
        "quarantined",
        3,
        batch["batch"]["id"],
    )
    ledger = outside.get("ledger")["groups"]
    assert (ledger["quarantined"], ledger["leased"], ledger["balanced"]) == (2, 0, True)
    assert miscounts(outside.run.pk) == []
    alert = RunEvent.objects.get(kind="batch_quarantined")
    assert (alert.level, alert.details["items"]) == ("error", 2)


def test_one_batch_in_quarantine_does_not_stop_the_next(outside: OutsideRun) -> None:
    first = quarantined(outside)
    outside.push(mark=3)
    outside.push(mark=4)

    second = outside.next()

    assert second is not None
    assert second["batch"]["ordinal"] == first["batch"]["ordinal"] + 1
    assert [item["tokens"][0][0] for item in second["items"]] == [3, 4]


def test_a_released_batch_goes_back_to_the_head_of_the_queue(outside: OutsideRun) -> None:
    batch = quarantined(outside)
    outside.push(mark=3)

    released = outside.decide("release", batch["batch"]["id"])

    assert (released.status_code, released.json()["state"]) == (200, "dropped")
    assert outside.get("mixing")["environments"][0]["sequences"] == 0
    again = outside.next()
    assert again is not None
    assert [item["tokens"][0][0] for item in again["items"]] == [1, 2]
    assert again["batch"]["id"] != batch["batch"]["id"]
    assert outside.ack(again).status_code == 200
    assert miscounts(outside.run.pk) == []
    assert outside.get("ledger")["groups"]["served"] == 2


def test_a_discarded_batch_is_dropped_as_poison(outside: OutsideRun) -> None:
    batch = quarantined(outside)

    discarded = outside.decide("discard", batch["batch"]["id"])
    twice = outside.decide("release", batch["batch"]["id"])

    assert discarded.status_code == 200
    assert (twice.status_code, twice.json()["code"]) == (409, "not_quarantined")
    ledger = outside.get("ledger")["groups"]
    assert (ledger["dropped"], ledger["quarantined"]) == ({"poison": 2}, 0)
    assert outside.next() is None
    assert miscounts(outside.run.pk) == []


@pytest.mark.parametrize(
    ("action", "state", "states"),
    [("release", "queued", {"queued": 2}), ("discard", "dropped", {"dropped": {"poison": 2}})],
)
def test_an_administrator_releases_and_discards_in_the_admin(
    outside: OutsideRun, action: str, state: str, states: dict[str, Any]
) -> None:
    batch = quarantined(outside)["batch"]["id"]
    staff = Client()
    staff.force_login(make_user(username="alice", role="admin"))
    person = User.objects.get(username="alice")
    rights = Permission.objects.filter(codename__in=["view_batch", "change_batch"])
    person.user_permissions.add(*rights)

    for _ in range(2):
        page = staff.post(
            "/admin/buffer/batch/",
            {
                "action": action,
                "_selected_action": [batch],
                "decided": "yes",
                "reason": "it kills trainers",
            },
            follow=True,
        )

    assert "not quarantined" in page.content.decode()
    assert set(TrajectoryGroup.objects.values_list("state", flat=True)) == {state}
    assert states.items() <= outside.get("ledger")["groups"].items()
    assert RunEvent.objects.filter(actor="user:alice").count() == 1


def test_a_user_without_staff_rights_changes_nothing_in_the_admin(outside: OutsideRun) -> None:
    batch = quarantined(outside)["batch"]["id"]

    answer = outside.operator.post(
        "/admin/buffer/batch/", {"action": "discard", "_selected_action": [batch]}
    )

    assert (answer.status_code, answer.headers["Location"][:13]) == (302, "/admin/login/")
    assert Batch.objects.get(pk=batch).state == "quarantined"


def test_a_late_trainer_may_acknowledge_a_quarantined_batch(outside: OutsideRun) -> None:
    batch = quarantined(outside)

    assert outside.ack(batch).status_code == 200

    assert outside.get("ledger")["groups"]["served"] == 2
    assert miscounts(outside.run.pk) == []


def test_fragments_are_quarantined_and_released_as_well() -> None:
    run = make_run(name="alpha", epoch=1, policy_step=0, batch_size=1, max_staleness=1)
    client, trainer = Client(), bearer("trainer", run=run)
    client.post(
        "/api/v1/runs/alpha/trainers",
        data=body({"name": "t", "resume": True}),
        content_type="application/json",
        headers=trainer,
    )
    client.post(
        "/api/v1/runs/alpha/fragments",
        data=push(fragment()),
        content_type=wire.FRAGMENTS_TYPE,
        headers=bearer("worker", run=run),
    )
    next_url = "/api/v1/runs/alpha/batches/next"
    for _ in range(3):
        answer = client.post(next_url, content_type="application/json", headers=trainer)
        assert answer.status_code == 200
        Batch.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
        jobs.reclaim_expired_leases()
    assert ledger_part(run.pk).fragments.quarantined == 1
    head = msgspec.msgpack.decode(answer.content, type=wire.BatchAnswer).batch

    released = client.post(
        f"/api/v1/runs/alpha/batches/{head.id}/release",
        content_type="application/json",
        headers=bearer("admin"),
    )

    assert released.status_code == 200
    answer = client.post(next_url, content_type="application/json", headers=trainer)
    assert answer.status_code == 200
    assert miscounts(run.pk) == []


@pytest.mark.parametrize("stock", [False, True], ids=["by id", "stock"])
def test_corrupt_bytes_are_never_served(outside: OutsideRun, stock: bool) -> None:
    for mark in range(3):
        outside.push(mark=mark)
    first = TrajectoryGroup.objects.order_by("id")[0]
    corrupt(first.pk)

    if stock:
        answer = outside.client.get("/atropos/words/batch", headers=outside.trainer)
        items = msgspec.json.decode(answer.content)["batch"]
    else:
        items = outside.next()["items"]

    assert [item["tokens"][0][0] for item in items] == [1, 2]
    first.refresh_from_db()
    assert (first.state, first.drop_reason) == ("dropped", "corrupt")
    assert RunEvent.objects.get(kind="items_corrupt").level == "error"
    assert miscounts(outside.run.pk) == []
    assert outside.get("mixing")["environments"][0]["sequences"] == 4


def test_a_batch_waits_for_a_replacement_of_a_corrupt_item(outside: OutsideRun) -> None:
    outside.push(mark=1)
    outside.push(mark=2)
    corrupt(TrajectoryGroup.objects.order_by("id")[1].pk)

    assert outside.next() is None

    assert outside.get("ledger")["groups"]["queued"] == 1
    outside.push(mark=3)
    batch = outside.next()
    assert [item["tokens"][0][0] for item in batch["items"]] == [1, 3]
