"""Ranks of one trainer train on disjoint shards of the same batches."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rolldeck.errors import InvalidRequestError, UnreachableError
from rolldeck.replay import ReplayBufferInterface
from rolldeck.trainer import Trainer
from tests.api.client.test_live_platform import WEIGHTS, connect, run  # noqa: F401 fixtures
from tests.factories import make_token
from tests.unit.client.batch_factories import make_fragment

pytestmark = pytest.mark.django_db(transaction=True)
Connect = Callable[..., Any]


@pytest.fixture
def ranks(connect: Connect, run: Any) -> list[Trainer]:  # noqa: F811
    token = make_token("trainer", run=run)[1]
    ranks = [
        Trainer("", "alpha", rank=rank, world_size=2, connection=connect(token=token))
        for rank in range(2)
    ]
    ranks[0].register()
    ranks[0].publish_weights(WEIGHTS, step=0)
    buffer = ReplayBufferInterface("", "alpha", connection=connect("worker"))
    buffer.add_fragments([make_fragment(number=number) for number in range(4)])
    return ranks


def test_each_rank_gets_its_shard_of_each_batch(ranks: list[Trainer]) -> None:
    seen: list[tuple[int, list[int]]] = []
    for _ in range(2):
        parts = [rank.next_batch(wait_seconds=0) for rank in ranks]
        assert all(part is not None and len(part) == 1 for part in parts)
        [first, second] = [part for part in parts if part is not None]
        assert (first.head.id, first.head.ordinal) == (second.head.id, second.head.ordinal)
        assert (first.head.rank, second.head.rank) == (0, 1)
        numbers = [part.fragments[0].fragment.number for part in (first, second)]
        seen.append((first.head.ordinal, numbers))
        ranks[1].ack(second)
        ranks[0].ack(first)

    assert seen == [(1, [0, 1]), (2, [2, 3])]


def test_a_batch_whose_acknowledgement_failed_is_served_to_both_ranks_again(
    ranks: list[Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ranks[0].next_batch(wait_seconds=0)
    assert first is not None

    def is_down(*_: object) -> None:
        raise UnreachableError(status=0, code="unreachable", detail="the server is away")

    with monkeypatch.context() as away:
        away.setattr(ranks[0]._connection, "json", is_down)
        with pytest.raises(UnreachableError):
            ranks[0].ack(first)

    again = [rank.next_batch(wait_seconds=0) for rank in ranks]
    assert [part.head.ordinal for part in again if part is not None] == [1, 1]
    assert again[0] is not None
    assert ranks[0].ack(again[0]) == 1


def test_a_finished_rank_waits_until_rank_zero_leases_another_batch(
    ranks: list[Trainer],
) -> None:
    first, mine = ranks[0].next_batch(wait_seconds=0), ranks[1].next_batch(wait_seconds=0)
    assert first is not None
    assert mine is not None
    ranks[1].ack(mine)

    assert ranks[1].next_batch(wait_seconds=0) is None

    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(ranks[1].next_batch(wait_seconds=20)))
    waiting.start()
    ranks[0].ack(first)
    ranks[0].next_batch(wait_seconds=0)
    waiting.join(20)

    assert got[0].head.ordinal == 2


def test_any_rank_may_fetch_the_whole_batch_by_its_id(ranks: list[Trainer]) -> None:
    part = ranks[0].next_batch(wait_seconds=0)
    assert part is not None

    whole = ranks[1].batch(part.head.id)

    assert len(whole) == 2
    np.testing.assert_array_equal(whole.fragments[0]["obs"], part.fragments[0]["obs"])


def test_a_rank_outside_its_world_is_refused(ranks: list[Trainer]) -> None:
    ranks[1].rank = 2

    with pytest.raises(InvalidRequestError) as refusal:
        ranks[1].next_batch(wait_seconds=0)

    assert [error.field for error in refusal.value.errors] == ["rank"]
