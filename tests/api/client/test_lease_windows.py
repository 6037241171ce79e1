"""Trainers that hold several batches, over HTTP: the client's thread, asyncio, ranks and torch."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from django.db import connection
from torch.utils.data import DataLoader

from buffer.items.models import Batch as StoredBatch
from rolldeck.async_trainer import AsyncTrainer
from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError, OutOfOrderError
from rolldeck.integrations.torch import RolloutDataset, TorchBatch, WindowFullError
from rolldeck.replay import ReplayBufferInterface
from rolldeck.torch_tensors import tensors_of
from rolldeck.trainer import Trainer
from runs.lifecycle.models import Run
from tests.api.client.test_live_platform import WEIGHTS, connect, run  # noqa: F401 fixtures
from tests.factories import make_token
from tests.server import wait_until
from tests.unit.client.batch_factories import make_fragment

pytestmark = pytest.mark.django_db(transaction=True)
Connect = Callable[..., Any]
BATCHES = 5


@pytest.fixture
def trainer(connect: Connect, run: Run) -> Iterator[Trainer]:  # noqa: F811
    trainer = Trainer("", "alpha", connection=connect("trainer"))
    trainer.register()
    trainer.publish_weights(WEIGHTS, step=0)
    buffer = ReplayBufferInterface("", "alpha", connection=connect("worker"))
    buffer.add_fragments([make_fragment(number=number) for number in range(2 * BATCHES)])
    yield trainer
    wait_until(  # the thread of the client and its requests use the database
        lambda: not any(each.name == "rolldeck-prefetch" for each in threading.enumerate()),
        seconds=30,
        what="no thread leases batches",
    )
    connection.close()


def leased() -> list[int]:
    found = StoredBatch.objects.filter(state="leased").order_by("ordinal")
    return [*found.values_list("ordinal", flat=True)]


def parts(batch: Batch) -> list[bytes]:
    return [bytes(item) for item in batch.items]


def taken(trainer: Trainer, count: int, *, ahead: int) -> list[Batch]:
    """Return batches of a loop that is left after `count` of them, the last unacknowledged."""
    found = []
    for batch in trainer.batches(ahead=ahead):
        found.append(batch)
        if len(found) == count:
            break
    return found


def test_batches_are_leased_while_one_is_trained_on(trainer: Trainer) -> None:
    loop = trainer.batches(ahead=2)
    for ordinal in range(1, BATCHES + 1):
        batch = next(loop)

        assert batch.head.ordinal == ordinal
        window = [*range(ordinal, min(ordinal + 2, BATCHES) + 1)]
        wait_until(lambda: leased() == window, seconds=30, what=f"batches {window} are leased")  # noqa: B023
    loop.close()

    assert leased() == [BATCHES]


def test_a_loop_that_was_left_receives_the_same_bytes_again(trainer: Trainer) -> None:
    first = taken(trainer, 2, ahead=2)

    again = taken(trainer, 3, ahead=2)

    assert [batch.head.ordinal for batch in again] == [2, 3, 4]
    assert parts(again[0]) == parts(first[1])


def test_the_ranks_of_a_window_receive_disjoint_shards_in_order(
    trainer: Trainer,
    connect: Connect,  # noqa: F811
    run: Run,  # noqa: F811
) -> None:
    token = make_token("trainer", run=run)[1]
    ranks = [
        Trainer("", "alpha", rank=rank, world_size=2, connection=connect(token=token))
        for rank in range(2)
    ]
    ranks[0].register(resume=True)
    loops = [rank.batches(ahead=1) for rank in ranks]

    for ordinal in range(1, BATCHES + 1):
        shards = [next(loop) for loop in loops]
        assert [shard.head.ordinal for shard in shards] == [ordinal, ordinal]
        numbers = [shard.fragments[0].fragment.number for shard in shards]
        assert numbers == [2 * ordinal - 2, 2 * ordinal - 1]

    for loop in loops:
        loop.close()


@pytest.mark.parametrize("ahead", [-1, 16])
def test_a_window_outside_its_limits_is_refused(trainer: Trainer, ahead: int) -> None:
    with pytest.raises(ValueError, match=f"ahead is {ahead}; it must be between"):
        next(trainer.batches(ahead=ahead))
    with pytest.raises(ValueError, match="ahead"):
        RolloutDataset(trainer, ahead=ahead)


def test_an_acknowledgement_out_of_order_raises_its_error(trainer: Trainer) -> None:
    first = trainer.next_batch(0)
    assert first is not None
    second = trainer.next_batch(0, holding=[first])
    assert second is not None

    with pytest.raises(OutOfOrderError):
        trainer.ack(second)

    assert (trainer.ack(first), trainer.ack(second)) == (2, 2)


def test_an_asynchronous_loop_trains_on_every_batch(trainer: Trainer) -> None:
    async def loop() -> list[int]:
        found = []
        async for batch in AsyncTrainer(trainer).batches(ahead=2):
            found.append(batch.head.ordinal)
            if len(found) == BATCHES:
                break
        return found

    assert asyncio.run(loop()) == [*range(1, BATCHES + 1)]
    assert leased() == [BATCHES]


def test_a_cancelled_request_loses_no_batch(trainer: Trainer) -> None:
    async def loop() -> tuple[Batch | None, Batch | None]:
        async_trainer = AsyncTrainer(trainer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(async_trainer.next_batch(), timeout=0)
        first = await async_trainer.next_batch()
        assert first is not None
        await async_trainer.ack(first)
        return first, await async_trainer.next_batch()

    first, second = asyncio.run(loop())

    assert first is not None
    assert second is not None
    assert (first.head.ordinal, second.head.ordinal) == (1, 2)


def test_a_data_set_yields_tensors_and_acknowledges_on_request(trainer: Trainer) -> None:
    with RolloutDataset(trainer, ahead=2) as data:
        found: list[TorchBatch] = []
        for item in DataLoader(data, batch_size=None):
            found.append(item)
            data.ack(item.batch)
            if len(found) == BATCHES:
                break

    assert [item.batch.head.ordinal for item in found] == [*range(1, BATCHES + 1)]
    assert leased() == []
    obs = found[0].tensors["obs"]
    assert obs.dtype == torch.float32
    np.testing.assert_array_equal(obs.numpy(), found[0].batch.stack()["obs"])


def test_a_data_set_ends_with_its_run(trainer: Trainer, run: Run) -> None:  # noqa: F811
    with RolloutDataset(trainer) as data:
        for item in data:
            data.ack(item.batch)
            Run.objects.filter(pk=run.pk).update(status="stopped")


def test_a_loop_that_never_acknowledges_fills_its_window(trainer: Trainer) -> None:
    with RolloutDataset(trainer, ahead=1) as data:
        items = iter(data)
        first, second = next(items), next(items)

        with pytest.raises(WindowFullError, match="2 batches are held"):
            next(items)
        with pytest.raises(ValueError, match="acknowledged before"):
            data.ack(second.batch)
        data.ack(first.batch)
        with pytest.raises(ValueError, match="is not held"):
            data.ack(first.batch)

    assert leased() == [2]


def test_worker_processes_of_a_loader_are_refused(trainer: Trainer) -> None:
    loader = DataLoader(RolloutDataset(trainer), batch_size=None, num_workers=1)

    with pytest.raises(RuntimeError, match="use num_workers=0"):
        next(iter(loader))

    assert leased() == []


def test_an_array_without_a_torch_type_is_named() -> None:
    with pytest.raises(InvalidMessageError, match="obs: torch has no tensors of the type <U1"):
        tensors_of({"obs": np.array(["a"])})
