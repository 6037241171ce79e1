"""Ranks of one trainer share a batch without overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from buffer.batches.rules.deliveries import shard

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
