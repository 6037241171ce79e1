from typing import Any

import msgspec
import pytest
from django.test import Client

from buffer.items.models import FragmentChunk
from rolldeck import wire
from runs.lifecycle.models import Run
from tests.buffer_factories import body, fragment, push
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A run that samples by priority, two fragments a batch, each as often as chance has it."""
    replay = {"sampler": "prioritized", "alpha": 1, "beta": 1, "max_reuse": 100}
    run = make_run(name="alpha", config={"buffer": {"batch_size": 2, "replay": replay}})
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
    return Run.objects.get(pk=run.pk)


class Api:
    """One run's API as its worker and its trainer use it."""

    def __init__(self, run: Run) -> None:
        self.client = Client()
        self.base = f"/api/v1/runs/{run.name}"
        self.worker = bearer("worker", run=run)
        self.trainer = bearer("trainer", "read", run=run)

    def push(self, *numbers: int) -> None:
        response = self.client.post(
            f"{self.base}/fragments",
            data=push(*[fragment(number=number) for number in numbers]),
            content_type=wire.FRAGMENTS_TYPE,
            headers=self.worker,
        )
        assert response.status_code == 200, response.content

    def post(self, path: str, content: Any = None) -> Any:
        return self.client.post(
            self.base + path,
            data=body(content or {}),
            content_type="application/json",
            headers=self.trainer,
        )

    def next(self, **content: Any) -> wire.BatchAnswer:
        response = self.post("/batches/next", content)
        assert response.status_code == 200, response.content
        return msgspec.msgpack.decode(response.content, type=wire.BatchAnswer)

    def prioritise(self, *updates: tuple[int, float], **more: Any) -> Any:
        listed = [{"id": item_id, "priority": priority} for item_id, priority in updates]
        return self.post("/fragments/priorities", {"updates": listed, **more})


@pytest.fixture
def api(run: Run) -> Api:
    api = Api(run)
    assert api.post("/trainers", {"name": "t", "resume": True}).status_code == 200
    return api


def test_a_sampled_batch_has_the_id_and_weight_of_each_item(api: Api) -> None:
    api.push(0, 1)
    ids = dict(FragmentChunk.objects.values_list("number", "id"))
    assert api.prioritise((ids[0], 1.0), (ids[1], 4.0)).json() == {"updated": 2}

    first, again = api.next(), api.next()

    numbers = [msgspec.msgpack.decode(item, type=wire.Fragment).number for item in first.items]
    assert first.batch.item_ids == [ids[number] for number in numbers]
    weights = dict(zip(numbers, first.batch.importance_weights, strict=True))
    assert weights == pytest.approx({0: 1.0, 1: 0.25})
    assert again.items == first.items
    assert again.batch.item_ids == first.batch.item_ids
    assert again.batch.importance_weights == first.batch.importance_weights


def test_ranks_get_each_sampled_item_once_with_its_own_weight(api: Api) -> None:
    api.push(0, 1)
    ids = dict(FragmentChunk.objects.values_list("number", "id"))
    api.prioritise((ids[0], 1.0), (ids[1], 4.0))

    shards = [api.next(rank=rank, world_size=2) for rank in range(2)]

    assert shards[0].batch.id == shards[1].batch.id
    seen = {}
    for shard in shards:
        [item], [item_id] = shard.items, shard.batch.item_ids
        number = msgspec.msgpack.decode(item, type=wire.Fragment).number
        assert item_id == ids[number]
        seen[number] = shard.batch.importance_weights
    assert seen == {0: [pytest.approx(1.0)], 1: [pytest.approx(0.25)]}
    assert api.next(rank=1, world_size=2).items == shards[1].items


def test_a_queue_adds_no_fields_to_a_batch() -> None:
    run = make_run(name="queue", config={"buffer": {"batch_size": 1}})
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
    api = Api(run)
    api.post("/trainers", {"name": "t", "resume": True})
    api.push(0)

    head = msgspec.msgpack.decode(api.post("/batches/next").content)["batch"]

    assert not {"item_ids", "importance_weights"} & set(head)


def test_the_list_of_batches_names_the_sampler(api: Api) -> None:
    api.push(0, 1)
    api.next()

    listed = api.client.get(f"{api.base}/batches", headers=api.trainer).json()["results"]

    assert [row["sampler"] for row in listed] == ["prioritized"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"updates": []}, "updates"),
        ({"updates": [{"id": 1, "priority": 0}]}, "updates[0].priority"),
        ({"updates": [{"id": 1, "priority": -1}]}, "updates[0].priority"),
        ({"updates": [{"id": 0, "priority": 1}]}, "updates[0].id"),
        ({"updates": [{"id": 1 << 63, "priority": 1}]}, "updates[0].id"),
        ({"updates": [{"id": 1}]}, "updates[0].priority"),
        ({}, "updates"),
    ],
)
def test_invalid_priorities_are_refused_with_their_field(
    api: Api, content: dict[str, Any], field: str
) -> None:
    response = api.post("/fragments/priorities", content)

    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field


def test_priorities_of_an_unknown_batch_are_refused(api: Api) -> None:
    for batch in ("x", "00000000-0000-0000-0000-000000000001"):
        response = api.prioritise((1, 1.0), batch=batch)
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
