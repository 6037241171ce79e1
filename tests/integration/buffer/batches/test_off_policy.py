"""Stale items are dropped with their reasons, and pushes beyond the limits are refused."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from buffer import jobs
from buffer.batches.queries.queues import queue_depth
from buffer.batches.services.expiry import drop_open
from buffer.batches.services.leases import lease_batch, lease_for_atropos
from buffer.batches.services.previews import preview
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch, TrajectoryGroup
from buffer.items.queries import admission_remaining, counts, ledger_part
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.services.registry import register_environment
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts
from web.disk_space import free_disk_bytes

pytestmark = pytest.mark.django_db

# The database judges ages by its own clock.
LONG_AGO, FRESH = datetime(2001, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)


@pytest.fixture
def run() -> Run:
    return make_outside_run()


def set_up(run: Run, **fields: Any) -> Run:
    Run.objects.filter(pk=run.pk).update(**fields) if fields else None
    return Run.objects.get(pk=run.pk)


def push(run: Run, *, count: int = 1, at: Any = None, **fields: Any) -> list[Receipt]:
    content = decode_group(body(group(sequences=2, **fields)))
    return accept_groups(
        run=Run.objects.get(pk=run.pk),
        groups=[content] * count,
        producer="tests",
        now=at or FRESH,
    )


def publish(run: Run, step: int, *, epoch: int = 1) -> None:
    """Publish a version as far as the buffer looks at it."""
    PolicyVersion.objects.create(
        run=run, epoch=epoch, step=step, manifest={}, sha256="", size_bytes=0, published_at=NOON
    )
    set_up(run, policy_step=step, epoch=epoch)


def dropped(run: Run) -> dict[str, int]:
    counted = ledger_part(run.pk).groups.dropped
    assert miscounts(run.pk) == []
    return counted


def test_groups_have_the_current_or_their_own_version(run: Run) -> None:
    push(run)
    publish(run, 3)
    push(run)
    push(run, policy_step=2)
    push(run, policy_step=1, epoch="of my data set")

    stamps = TrajectoryGroup.objects.order_by("id").values_list("epoch", "policy_step")
    assert list(stamps) == [(0, 0), (1, 3), (1, 2), (1, 1)]


def test_the_version_is_served_as_sent_without_an_added_null(run: Run) -> None:
    named = decode_group(body(group(policy_step=2, epoch=1)))
    plain = decode_group(body(group()))

    assert b'"policy_step": 2, "epoch": 1' in named.content
    assert b"policy_step" not in plain.content


def test_a_non_numeric_version_is_refused_with_its_field(client: Client) -> None:
    client.post("/register", REGISTRATION, content_type="application/json")

    answer = client.post(
        "/scored_data", group(policy_step="newest"), content_type="application/json"
    )

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "policy_step"]
    assert not TrajectoryGroup.objects.exists()


def test_groups_of_the_future_or_another_epoch_are_dropped_and_reported(
    run: Run,
) -> None:
    publish(run, 0)
    publish(run, 3, epoch=2)

    assert [r.dropped for r in push(run, policy_step=4)] == ["future"]
    assert [r.dropped for r in push(run, policy_step=0, epoch=1)] == ["stale_epoch"]
    assert [r.dropped for r in push(run, policy_step=3)] == [None]

    assert dropped(run) == {"future": 1, "stale_epoch": 1}


def test_the_answer_to_a_push_lists_dropped_groups(client: Client) -> None:
    client.post("/register", REGISTRATION, content_type="application/json")

    answer = client.post("/scored_data", group(policy_step=9), content_type="application/json")

    assert answer.json() == {"status": "received", "dropped": {"future": 1}}
    assert client.get("/latest_example").status_code == 200


def test_a_stale_group_hidden_behind_a_fresh_one_is_dropped_before_a_batch_is_formed(
    run: Run,
) -> None:
    publish(run, 5)
    set_up(run, max_staleness=2)
    push(run, policy_step=5)
    push(run, policy_step=4)
    push(run, policy_step=5)
    publish(run, 7)

    lease = lease_batch(run_id=run.pk, identity="alice")

    assert dropped(run) == {"stale_version": 1}
    assert lease is not None
    assert lease.batch.staleness == {"2": 2}


def test_groups_have_no_limit_unless_the_run_sets_one(run: Run) -> None:
    publish(run, 0)
    push(run, count=2)
    publish(run, 50)

    lease = lease_batch(run_id=run.pk, identity="alice")

    assert lease is not None
    assert lease.batch.staleness == {"50": 2}


def test_without_published_weights_batches_count_as_versions(run: Run) -> None:
    set_up(run, max_staleness=0)
    push(run, count=4)
    first = lease_batch(run_id=run.pk, identity="alice")
    assert first is not None
    acknowledge_batch(run_id=run.pk, batch_id=first.batch.pk, fence=first.batch.fence)

    assert lease_batch(run_id=run.pk, identity="alice") is None

    assert first.batch.staleness == {"0": 2}
    assert dropped(run) == {"stale_version": 2}


def test_stale_groups_are_dropped_on_a_batch_request(run: Run) -> None:
    set_up(run, max_age_seconds=60)
    push(run, count=2, at=LONG_AGO)
    push(run, count=2)

    lease = lease_for_atropos(run_id=run.pk, identity="alice", sender="", now=NOON)

    assert lease is not None
    newest = TrajectoryGroup.objects.order_by("-id").values_list("id", flat=True)[:2]
    assert set(TrajectoryGroup.objects.filter(batch=lease.batch).values_list("id", flat=True)) == (
        set(newest)
    )
    assert dropped(run) == {"stale_age": 2}


def test_stale_items_are_dropped_in_the_background_without_a_request(run: Run) -> None:
    register_environment(
        run_id=run.pk, **{**ENVIRONMENT, "group_size": 4}, min_batch_allocation=None, now=NOON
    )
    set_up(run, max_age_seconds=60)
    push(run, count=1, env_id=0, at=LONG_AGO)
    push(run, count=1, at=LONG_AGO)

    assert jobs.reclaim_expired_leases()["dropped"] == 2

    assert dropped(run) == {"stale_age": 2}


def test_admission_counts_from_the_restored_step(run: Run) -> None:
    set_up(run, max_staleness=1)
    publish(run, 500)
    assert admission_remaining(run.pk) == 2 * 4
    push(run, count=3)
    assert admission_remaining(run.pk) == 2 * 4 - 6
    publish(run, 501)
    assert admission_remaining(run.pk) == 3 * 4 - 6


def test_without_a_staleness_limit_the_tolerance_bounds_admission(run: Run) -> None:
    push(run, count=5)
    depth = queue_depth(run.pk)
    assert (depth.admission_remaining, depth.running, depth.admission_capacity) == (2, 0, 2)
    lease_batch(run_id=run.pk, identity="alice")
    assert queue_depth(run.pk).admission_capacity == 6


def test_bytes_are_counted_in_every_state_of_an_item(run: Run) -> None:
    push(run, count=4)
    size = TrajectoryGroup.objects.values_list("size_bytes", flat=True)[0]
    assert queue_depth(run.pk).size_bytes == 4 * size
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    assert queue_depth(run.pk).size_bytes == 4 * size
    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
    assert queue_depth(run.pk).size_bytes == 2 * size
    drop_open(run_id=run.pk, reason="killed", now=NOON)
    assert queue_depth(run.pk).size_bytes == 0
    by_state = {row.state: row.size_bytes for row in counts(run.pk, "groups")}
    assert by_state["accepted"] == 4 * size


@pytest.mark.parametrize(
    ("setting", "value", "status"),
    [
        ("ROLLDECK_MAX_QUEUED_GROUPS", 2, 503),
        ("ROLLDECK_MAX_RUN_BYTES", 100, 503),
        ("ROLLDECK_MIN_FREE_DISK_BYTES", 1 << 60, 507),
    ],
)
def test_a_push_over_a_limit_is_refused_with_retry_after(
    client: Client, settings: Any, setting: str, value: int, status: int
) -> None:
    client.post("/register", REGISTRATION, content_type="application/json")
    client.post("/scored_data_list", [group(), group()], content_type="application/json")
    setattr(settings, setting, value)

    answer = client.post("/scored_data", group(), content_type="application/json")

    assert answer.status_code == status
    assert int(answer["Retry-After"]) > 0
    assert TrajectoryGroup.objects.count() == 2


def test_the_free_disk_space_is_that_of_the_server() -> None:
    assert free_disk_bytes() > 0


def test_over_the_tolerance_environments_get_their_share_until_the_lower_mark(
    client: Client,
) -> None:
    client.post("/register", REGISTRATION, content_type="application/json")
    client.get("/batch")
    for _ in range(2):
        client.post("/register-env", ENVIRONMENT, content_type="application/json")

    def status(env_id: int) -> dict[str, Any]:
        answer = client.get(f"/status-env?env_id={env_id}")
        content: dict[str, Any] = answer.json()
        return content

    # 12 sequences may wait: 6 of each environment, which is 3 groups.
    for _ in range(5):
        client.post("/scored_data", group(env_id=0), content_type="application/json")
    assert (status(1)["queue_size"], "paced" in status(1)) == (5, False)
    client.post("/scored_data", group(env_id=0), content_type="application/json")
    assert (status(1)["queue_size"], status(1)["paced"]) == (3, True)
    assert status(0)["queue_size"] == 9
    assert Run.objects.get().over_tolerance

    client.get("/batch")
    assert status(1)["paced"]
    client.get("/batch")
    assert (status(1)["queue_size"], "paced" in status(1)) == (2, False)
    assert not Run.objects.get().over_tolerance

    Run.objects.update(exact_queue_size=True)
    for _ in range(9):
        client.post("/scored_data", group(env_id=0), content_type="application/json")
    assert (status(1)["queue_size"], "paced" in status(1)) == (11, False)
    assert Batch.objects.count() == 2


def test_a_preview_omits_items_that_the_next_request_drops(run: Run) -> None:
    publish(run, 1)
    push(run, count=2)
    publish(run, 9)
    push(run, policy_step=8)
    fresh = TrajectoryGroup.objects.get(policy_step=8)
    run = set_up(run, max_staleness=1)

    seen = preview(run)
    assert (seen.reason, seen.queued_sequences) == ("too_few", fresh.sequences)
    assert dropped(run) == {}

    push(run, policy_step=9)
    assert preview(run).composition == {"": 4}
    assert TrajectoryGroup.objects.filter(state="queued").count() == 4
