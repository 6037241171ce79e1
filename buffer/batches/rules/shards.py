"""Split a batch into disjoint shards, one per rank of a trainer."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from web.rules.errors import Invalid


class RankOutsideWorld(Invalid):
    """The rank is not below the world size."""

    field = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The rank and world size of a requested shard; by default the whole batch."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise RankOutsideWorld(f"rank {self.rank} must be below world_size {self.world_size}")


def shard(sizes: Sequence[int], *, rank: int, world_size: int) -> range:
    """Return the positions of the items that `rank` trains on.

    Shards are contiguous, disjoint and cover the batch. Each border is at the item nearest to an
    equal division, so shards are equal if the items allow it. With fewer items than ranks, some
    ranks get no items.

    Args:
        sizes: Sequences of each item of the batch, in order.
        rank: 0 … world_size − 1.
        world_size: Number of shards, at least 1.
    """
    ends = [0, *accumulate(sizes)]
    return range(_border(ends, rank, world_size), _border(ends, rank + 1, world_size))


def _border(ends: Sequence[int], rank: int, world_size: int) -> int:
    # In units of sequences times world_size, to avoid rounding.
    target = ends[-1] * rank
    after = bisect_left(ends, target, key=lambda end: end * world_size)
    if after == 0:
        return 0
    before = after - 1
    return (
        before if target - ends[before] * world_size <= ends[after] * world_size - target else after
    )
