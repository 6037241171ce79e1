"""Deliveries, shards, shares and answers of batches."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from buffer.batches.rules.batch_bytes import Item, msgpack_answer
from buffer.batches.rules.deliveries import SENDING_LIMIT, Delivery, NextAction, shard
from buffer.batches.rules.pacing import EnvironmentShare, environment_status
from buffer.items.rules.ledger import balance
from rolldeck.wire import BatchAnswer, BatchHead

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO = NOON - SENDING_LIMIT - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("delivered_at", "sending_since", "alive", "expected"),
    [
        (NOON, None, None, NextAction.CONFIRM),
        (None, None, None, NextAction.SEND_AGAIN),
        (None, NOON, True, NextAction.LEAVE),
        (None, LONG_AGO, True, NextAction.LEAVE),
        (None, NOON, False, NextAction.SEND_AGAIN),
        (None, NOON, None, NextAction.LEAVE),
        (None, LONG_AGO, None, NextAction.SEND_AGAIN),
    ],
)
def test_the_next_request_acknowledges_the_batch_before(
    delivered_at: datetime | None,
    sending_since: datetime | None,
    alive: bool | None,
    expected: NextAction,
) -> None:
    delivery = Delivery(
        delivered_at=delivered_at, sending_since=sending_since, sender_is_alive=alive
    )

    assert delivery.on_next_request(now=NOON) is expected


def test_a_ledger_balances_only_when_every_item_is_counted() -> None:
    counts = [("accepted", "", 6), ("queued", "", 2), ("served", "", 3), ("dropped", "killed", 1)]

    assert balance(counts).balanced
    assert not balance(counts[:-1]).balanced
    assert balance(counts).dropped == {"killed": 1}


def share(env_id: int, *, weight: float = 1.0, connected: bool = True) -> EnvironmentShare:
    return EnvironmentShare(
        env_id=env_id,
        max_token_length=64,
        weight=weight,
        group_size=2,
        min_batch_allocation=None,
        connected=connected,
    )


def test_no_environment_is_starved() -> None:
    status = environment_status(
        env_id=0,
        environments=[share(0, weight=0.0), share(1, weight=1.0)],
        queued={},
        batch_size=4,
    )

    assert status.env_weight == 0.01


def test_a_share_of_zero_is_the_least_share() -> None:
    environments = [share(0, connected=False)]

    status = environment_status(env_id=0, environments=environments, queued={}, batch_size=4)

    assert status.env_weight == 0.01


def test_the_group_size_is_raised_to_the_largest_group_queued() -> None:
    status = environment_status(
        env_id=0, environments=[share(0)], queued={(0, 8): 2, (0, 2): 4}, batch_size=4
    )

    assert (status.max_group_size, status.self_queue_size, status.queue_size) == (8, 3, 3)


def test_a_concatenated_answer_equals_that_of_the_encoder() -> None:
    head = BatchHead(
        id="b",
        ordinal=1,
        fence=2,
        kind="fragments",
        count=2,
        lease_seconds=60.0,
        epoch=1,
        policy_step=3,
    )
    contents = [b"first", b"x" * 70_000]
    items = [Item("msgpack", content) for content in contents]

    answer = msgspec.msgpack.decode(b"".join(msgpack_answer(head, items)), type=BatchAnswer)

    assert answer == BatchAnswer(batch=head, codecs=["msgpack", "msgpack"], items=contents)


SIZES = some.lists(some.integers(1, 50), min_size=1, max_size=60)


@given(sizes=SIZES, world_size=some.integers(1, 70))
def test_shards_are_disjoint_and_cover_the_batch_in_order(
    sizes: list[int], world_size: int
) -> None:
    places = [
        place
        for rank in range(world_size)
        for place in shard(sizes, rank=rank, world_size=world_size)
    ]

    assert places == list(range(len(sizes)))


@given(size=some.integers(1, 20), per_rank=some.integers(1, 10), world_size=some.integers(1, 10))
def test_equal_groups_make_equal_shards(size: int, per_rank: int, world_size: int) -> None:
    sizes = [size] * (per_rank * world_size)

    for rank in range(world_size):
        assert len(shard(sizes, rank=rank, world_size=world_size)) == per_rank


@given(sizes=SIZES, world_size=some.integers(1, 10))
def test_no_shard_is_further_from_its_share_than_the_largest_group(
    sizes: list[int], world_size: int
) -> None:
    for rank in range(world_size):
        sequences = sum(sizes[place] for place in shard(sizes, rank=rank, world_size=world_size))
        assert abs(sequences - sum(sizes) / world_size) <= max(sizes)


@pytest.mark.parametrize(("rank", "places"), [(0, [0]), (1, [1, 2])])
def test_the_example_of_the_documentation_is_sharded(rank: int, places: list[int]) -> None:
    assert list(shard([4, 2, 2], rank=rank, world_size=2)) == places
