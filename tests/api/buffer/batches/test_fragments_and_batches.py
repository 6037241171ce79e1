import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pytest

from buffer import jobs
from buffer.batches.services.leases import record_delivered
from buffer.items.models import Batch, FragmentChunk
from buffer.items.queries import admission_remaining
from rolldeck import wire
from rolldeck.batches import Batch as Received
from runs.lifecycle.models import Run
from tests.api.buffer.fragment_api import Api
from tests.buffer_factories import arrays, body, fragment, group, padded, push
from tests.factories import bearer, make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A fleet run at version 0 of epoch 1 that trains on batches of two fragments."""
    return make_run(name="alpha", epoch=1, policy_step=0, batch_size=2, max_staleness=1)


@pytest.fixture
def api(run: Run) -> Api:
    return Api(run)


def test_a_batch_of_fragments_is_leased_served_and_acknowledged(api: Api, run: Run) -> None:
    api.register()
    sent = [fragment(number=number) for number in range(3)]
    receipt = api.push(*sent).json()

    answer = api.next()

    assert receipt == {"accepted": 3, "duplicates": 0, "dropped": {}, "admission_remaining": 1}
    assert answer is not None
    assert (answer.batch.ordinal, answer.batch.count, answer.batch.kind) == (1, 2, "fragments")
    assert answer.items == [wire.encode(group) for group in sent[:2]]
    ack = api.post(f"/batches/{answer.batch.id}/ack", {"fence": answer.batch.fence})
    assert ack.json() == {"served_steps": 1}
    assert api.next() is None
    ledger = api.ledger()
    assert (ledger["accepted"], ledger["served"], ledger["queued"]) == (3, 2, 1)
    assert miscounts(run.pk) == []
    row = Batch.objects.get()
    assert (row.composition, row.staleness) == ({"gymnasium:CartPole-v1": 2}, {"0": 2})


def test_a_request_without_an_acknowledgement_leases_the_same_batch_with_a_higher_fence(
    api: Api,
) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(4)])
    first, second = api.next(), api.next()

    assert first is not None
    assert second is not None
    assert (first.batch.id, first.items) == (second.batch.id, second.items)
    assert second.batch.fence > first.batch.fence
    late = api.post(f"/batches/{first.batch.id}/ack", {"fence": first.batch.fence})
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    for _ in range(2):
        ack = api.post(f"/batches/{first.batch.id}/ack", {"fence": second.batch.fence})
        assert ack.status_code == 200
    assert api.ledger()["served"] == 2


def test_the_delivery_time_of_a_batch_is_stored(api: Api) -> None:
    api.register()
    api.push(fragment(number=0), fragment(number=1))
    answer = api.next()
    assert answer is not None
    held = Batch.objects.get()
    api.client.get(f"{api.base}/batches/{answer.batch.id}", headers=api.trainer)
    read_again = Batch.objects.get()
    api.post(f"/batches/{answer.batch.id}/ack", {"fence": answer.batch.fence})
    done = Batch.objects.get()

    assert held.delivered_at is not None
    assert held.leased_at <= held.delivered_at
    assert read_again.delivered_at == held.delivered_at, "it was in hand already"
    assert done.settled_at is not None
    assert held.delivered_at <= done.settled_at


def test_a_late_delivery_report_has_the_time_of_the_acknowledgement(api: Api) -> None:
    api.register()
    api.push(fragment(number=0), fragment(number=1))
    answer = api.next()
    assert answer is not None
    api.post(f"/batches/{answer.batch.id}/ack", {"fence": answer.batch.fence})

    record_delivered(batch_id=UUID(answer.batch.id), fence=answer.batch.fence)

    late = Batch.objects.get()
    assert late.delivered_at == late.settled_at


def test_the_holder_of_a_lease_may_fetch_its_batch_again(api: Api, run: Run) -> None:
    api.register()
    api.push(fragment(number=0), fragment(number=1))
    answer = api.next()
    assert answer is not None

    again = api.client.get(f"{api.base}/batches/{answer.batch.id}", headers=api.trainer)
    other = api.client.get(
        f"{api.base}/batches/{answer.batch.id}", headers=bearer("trainer", run=run)
    )

    assert msgspec.msgpack.decode(again.content, type=wire.BatchAnswer).items == answer.items
    assert other.status_code == 409


def test_a_trainer_names_the_batches_that_it_holds(api: Api) -> None:
    api.register()
    api.push(*(fragment(number=number) for number in range(4)))
    first = api.next()
    assert first is not None

    second = api.next(holding=[first.batch.id])
    assert second is not None
    early = api.post(f"/batches/{second.batch.id}/ack", {"fence": second.batch.fence})

    assert (first.batch.ordinal, second.batch.ordinal) == (1, 2)
    assert (early.status_code, early.json()["code"]) == (409, "out_of_order")
    for one in (first, second):
        acked = api.post(f"/batches/{one.batch.id}/ack", {"fence": one.batch.fence})
        assert acked.status_code == 200


@pytest.mark.parametrize(
    "holding", [["no-id"], [str(uuid4()) for _ in range(16)], "all"], ids=["text", "16", "type"]
)
def test_an_impossible_window_is_refused_with_its_field(api: Api, holding: Any) -> None:
    api.register()

    response = api.post("/batches/next", {"holding": holding})

    assert response.status_code == 400
    assert response.json()["errors"][0]["field"].startswith("holding")


@pytest.mark.parametrize("share", [{}, {"rank": 1, "world_size": 2}])
def test_an_ended_run_is_not_awaited(api: Api, run: Run, share: dict[str, int]) -> None:
    api.register()
    Run.objects.filter(pk=run.pk).update(status="stopped")
    began = time.monotonic()

    answer = api.post("/batches/next", {"wait_seconds": 60} | share)

    assert (answer.status_code, answer.headers["Rolldeck-Run-Status"]) == (204, "stopped")
    assert time.monotonic() - began < 30


def test_only_registered_trainers_get_batches(api: Api) -> None:
    response = api.post("/batches/next")

    assert (response.status_code, response.json()["code"]) == (409, "trainer_not_registered")


def test_a_fragment_that_is_sent_twice_is_stored_once(api: Api) -> None:
    api.push(fragment(number=0))

    receipt = api.push(fragment(number=0), fragment(number=1), fragment(number=1)).json()

    assert (receipt["accepted"], receipt["duplicates"]) == (1, 2)
    assert api.ledger()["accepted"] == 2


def test_a_push_with_a_key_is_answered_as_the_first_time(api: Api) -> None:
    first = api.push(fragment(), **{"Idempotency-Key": "a"})
    again = api.push(fragment(), **{"Idempotency-Key": "a"})
    other = api.push(fragment(number=1), **{"Idempotency-Key": "a"})

    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")


def test_fragments_too_old_for_training_are_counted_by_reason(api: Api, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(policy_step=5)
    steps = {step: np.full(4, step, np.int32) for step in (3, 4, 6)}

    receipt = api.push(
        fragment(number=0, epoch=0),
        *[
            fragment(
                number=index + 1,
                version_min=step,
                version_max=step,
                arrays=arrays(4, policy_step=acted),
            )
            for index, (step, acted) in enumerate(steps.items())
        ],
    ).json()

    assert receipt["accepted"] == 1
    assert receipt["dropped"] == {"stale_epoch": 1, "stale_version": 1, "future": 1}
    assert miscounts(run.pk) == []


def test_fragments_that_grew_stale_in_the_queue_are_not_served(api: Api, run: Run) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(2)])
    Run.objects.filter(pk=run.pk).update(policy_step=2)

    assert api.next() is None

    assert api.ledger()["dropped"] == {"stale_version": 2}
    assert admission_remaining(run.pk) == 8


def test_a_new_epoch_drops_the_fragments_of_the_previous_one(api: Api, run: Run) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(3)])
    assert api.next() is not None
    Run.objects.filter(pk=run.pk).update(epoch=2)

    jobs.reclaim_expired_leases()

    assert api.ledger()["dropped"] == {"stale_epoch": 3}
    assert Batch.objects.get().state == "dropped"
    assert api.next() is None


def test_a_padded_fragment_counts_its_real_steps(api: Api, run: Run) -> None:
    api.register()
    api.push(fragment(arrays=padded(4, real=3)), fragment(number=1))

    batch = api.next()
    stored = FragmentChunk.objects.order_by("id").values_list("steps", flat=True)

    assert list(stored) == [3, 4]
    assert batch is not None
    stacked = Received.decode(wire.encode(batch)).stack()
    assert stacked["mask"].tolist() == [[True, True, True, False], [True] * 4]


def test_a_run_that_has_ended_refuses_pushes(api: Api, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status="stopped")

    response = api.push(fragment())

    assert (response.status_code, response.json()["code"]) == (409, "run_not_accepting")


def test_any_number_of_fragments_can_be_fetched(api: Api) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(3)])

    response = api.post("/fragments/fetch", {"count": 3})

    head = msgspec.msgpack.decode(response.content, type=wire.BatchAnswer).batch
    assert head.count == 3
    ack = api.post("/fragments/ack", {"batch": head.id, "fence": head.fence})
    assert ack.status_code == 200
    assert api.ledger()["served"] == 3


def test_a_fetch_acknowledges_the_previous_fragments(api: Api, run: Run) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(4)])
    first = fetched(api, count=2)
    ack = {"batch": first.batch.id, "fence": first.batch.fence}

    second = fetched(api, count=2, ack=ack)
    again = fetched(api, count=2, ack=ack)

    assert (first.batch.ordinal, second.batch.ordinal) == (1, 2)
    assert (again.batch.id, again.items) == (second.batch.id, second.items), "a lost answer"
    assert [row.state for row in Batch.objects.order_by("ordinal")] == ["confirmed", "leased"]
    assert miscounts(run.pk) == []


def test_a_fetch_acknowledges_although_no_further_fragments_arrive(api: Api) -> None:
    api.register()
    api.push(fragment(number=0), fragment(number=1))
    first = fetched(api, count=2)
    ack = {"batch": first.batch.id, "fence": first.batch.fence}

    response = api.post("/fragments/fetch", {"count": 2, "wait_seconds": 0.1, "ack": ack})

    assert response.status_code == 204
    assert api.ledger()["served"] == 2


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"fence": 9}, 409, "lease_lost"),
        ({"batch": str(uuid4())}, 404, "not_found"),
        ({"batch": "first"}, 404, "not_found"),
        ({"fence": 0}, 400, "invalid"),
    ],
)
def test_a_refused_acknowledgement_leases_nothing(
    api: Api, wrong: dict[str, Any], status: int, code: str
) -> None:
    api.register()
    api.push(*[fragment(number=number) for number in range(4)])
    first = fetched(api, count=2)
    ack = {"batch": first.batch.id, "fence": first.batch.fence}

    refusal = api.post("/fragments/fetch", {"count": 2, "ack": ack | wrong})

    assert (refusal.status_code, refusal.json()["code"]) == (status, code)
    assert Batch.objects.get().state == "leased"


def fetched(api: Api, **content: Any) -> wire.BatchAnswer:
    response = api.post("/fragments/fetch", content)
    assert response.status_code == 200, response.content
    return msgspec.msgpack.decode(response.content, type=wire.BatchAnswer)


def test_each_route_requires_its_scope(api: Api, run: Run) -> None:
    assert api.client.post(f"{api.base}/fragments").status_code == 401
    assert api.post("/batches/next", trainer=api.worker).status_code == 403
    other = make_run(name="beta")
    assert api.post("/batches/next", trainer=bearer("trainer", run=other)).status_code == 403


@pytest.mark.parametrize("wrong", [{"wait_seconds": -1}, {"wait_seconds": 61}, {"x": 1}])
def test_an_impossible_wait_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    assert api.post("/batches/next", wrong).status_code == 400


def test_groups_are_accepted_as_json_and_as_msgpack() -> None:
    outside = make_run(name="words", kind="outside", batch_size=2, registered_at="2026-01-01T00Z")
    api = Api(outside)
    api.register()
    for mark in range(2):
        pushed = api.client.post(
            "/atropos/words/scored_data",
            data=body(group(mark=mark)),
            content_type="application/json",
        )
        assert pushed.status_code == 200

    packed = api.next()
    plain = api.client.post(
        f"{api.base}/batches/next",
        data=b"{}",
        content_type="application/json",
        headers=api.trainer | {"Accept": "application/json"},
    ).json()

    assert packed is not None
    assert [msgspec.json.decode(item) for item in packed.items] == plain["items"]
    assert plain["batch"]["id"] == packed.batch.id
    listed = api.client.get(f"{api.base}/batches", headers=api.trainer).json()["results"]
    assert [row["sequences"] for row in listed] == [2]


def in_parts(steps: int, *, without: str = "", **changes: Any) -> dict[str, wire.Array]:
    """Return a fragment's arrays with observations of two parts."""
    parts: dict[str, Any] = {
        "obs.a": np.zeros((steps, 1), np.uint8),
        "obs.b": np.zeros((steps, 3), np.float32),
        "next_obs.a": np.zeros(1, np.uint8),
        "next_obs.b": np.zeros(3, np.float32),
    }
    return arrays(steps, **{"obs": None, "next_obs": None, **parts, without: None, **changes})


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no msgpack": (lambda: b"\xc1", "body"),
    "an unknown field": (lambda: msgspec.msgpack.encode({"fragments": [b""], "x": 1}), "body"),
    "no fragments": (lambda: msgspec.msgpack.encode({"fragments": []}), "fragments"),
    "a broken fragment": (lambda: push(fragment()) + b"x", "body"),
    "no reward": (lambda: push(fragment(arrays=arrays(4, reward=None))), "arrays.reward"),
    "rewards of another dtype": (
        lambda: push(fragment(arrays=arrays(4, reward=np.ones(4)))),
        "arrays.reward",
    ),
    "too few rewards": (
        lambda: push(fragment(arrays=arrays(4, reward=np.ones(3, np.float32)))),
        "arrays.reward",
    ),
    "a reward that is no number": (
        lambda: push(fragment(arrays=arrays(4, reward=np.full(4, np.nan, np.float32)))),
        "arrays.reward",
    ),
    "another next_obs": (
        lambda: push(fragment(arrays=arrays(4, next_obs=np.zeros(5, np.float32)))),
        "arrays.next_obs",
    ),
    "a part without its next_obs": (
        lambda: push(fragment(arrays=in_parts(4, without="next_obs.b"))),
        "arrays.next_obs.b",
    ),
    "a part of another type": (
        lambda: push(fragment(arrays=in_parts(4, **{"next_obs.b": np.zeros(3, np.int8)}))),
        "arrays.next_obs.b",
    ),
    "a part that is too short": (
        lambda: push(fragment(arrays=in_parts(4, **{"obs.a": np.zeros((3, 1), np.uint8)}))),
        "arrays.obs.a",
    ),
    "a last observation without a part": (
        lambda: push(
            fragment(
                arrays=in_parts(
                    4,
                    truncated=np.arange(4) == 1,
                    final_step=np.array([1], np.int32),
                    **{"final_obs.a": np.zeros((1, 1), np.uint8)},
                )
            )
        ),
        "arrays.final_obs.b",
    ),
    "observations whole and in parts": (
        lambda: push(fragment(arrays=in_parts(4, obs=np.zeros((4, 2), np.float32)))),
        "arrays.obs",
    ),
    "a step outside": (
        lambda: push(
            fragment(
                arrays=arrays(
                    4,
                    final_obs=np.zeros((1, 4), np.float32),
                    final_step=np.array([4], np.int32),
                )
            )
        ),
        "arrays.final_step",
    ),
    "an episode that is not named": (lambda: push(fragment(episode_ids=[])), "episode_index"),
    "versions that were not": (
        lambda: push(fragment(arrays=arrays(4, policy_step=np.full(4, 3, np.int32)))),
        "arrays.policy_step",
    ),
    "bytes that do not fill the shape": (
        lambda: push(
            fragment(arrays=arrays(4) | {"value": wire.Array(dtype="f", shape=(4,), data=b"")})
        ),
        "arrays.value",
    ),
    "a mask of numbers": (
        lambda: push(fragment(arrays=arrays(4, mask=np.ones(4, np.float32)))),
        "arrays.mask",
    ),
    "a mask of another length": (
        lambda: push(fragment(arrays=arrays(4, mask=np.ones(3, bool)))),
        "arrays.mask",
    ),
    "no real step": (
        lambda: push(fragment(arrays=padded(4, real=0))),
        "arrays.mask",
    ),
    "a real step behind padding": (
        lambda: push(fragment(arrays=padded(4, real=2, mask=np.array([1, 0, 1, 0], bool)))),
        "arrays.mask",
    ),
    "padding that is rewarded": (
        lambda: push(fragment(arrays=padded(4, real=2, reward=np.ones(4, np.float32)))),
        "arrays.reward",
    ),
    "infinite info": (
        lambda: push(
            fragment(arrays=arrays(4, **{"info.a": np.array([0, np.nan, np.inf, 0], np.float32)}))
        ),
        "arrays.info.a",
    ),
    "info of another type": (
        lambda: push(fragment(arrays=arrays(4, **{"info.a": np.zeros(4)}))),
        "arrays.info.a",
    ),
    "info of another length": (
        lambda: push(fragment(arrays=arrays(4, **{"info.a": np.zeros(3, np.float32)}))),
        "arrays.info.a",
    ),
    "info of two axes": (
        lambda: push(fragment(arrays=arrays(4, **{"info.a": np.zeros((4, 1), np.float32)}))),
        "arrays.info.a",
    ),
    "info in padding": (
        lambda: push(fragment(arrays=padded(4, real=2, **{"info.a": np.ones(4, np.float32)}))),
        "arrays.info.a",
    ),
    "padding in the middle of an episode": (
        lambda: push(fragment(arrays=padded(4, real=2, truncated=np.zeros(4, bool)))),
        "arrays.mask",
    ),
    "the second one": (
        lambda: push(fragment(), fragment(number=1, arrays=arrays(4, obs=None))),
        "fragments[1].arrays.obs",
    ),
}


@pytest.mark.parametrize(("content", "field"), BROKEN.values(), ids=BROKEN.keys())
def test_malformed_fragments_are_refused_with_their_field(
    api: Api, content: Callable[[], bytes], field: str
) -> None:
    response = api.send(content())

    assert response.status_code == 422
    assert field in response.json()["errors"][0]["field"]
    assert FragmentChunk.objects.count() == 0
