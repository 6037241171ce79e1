"""Cut a batch into disjoint shards, one for each rank of a trainer."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


class RankOutsideWorld(ValueError):
    """A rank is not below its world size."""

    field = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Whose part of a batch is wanted; by default all of it."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise RankOutsideWorld(f"rank {self.rank} is not below world_size {self.world_size}")


def shard(sizes: Sequence[int], *, rank: int, world_size: int) -> range:
    """Return the places of the items that `rank` trains on.

    Shards are contiguous, disjoint and cover the batch; each border lies at the item nearest to
    its equal share, so they are equal whenever the items allow it. A rank gets nothing when
    there are fewer items than ranks.

    Args:
        sizes: Sequences of each item of the batch, in order.
        rank: 0 … world_size − 1.
        world_size: How many shards, at least 1.
    """
    ends = [0, *accumulate(sizes)]
    return range(_border(ends, rank, world_size), _border(ends, rank + 1, world_size))


def _border(ends: Sequence[int], rank: int, world_size: int) -> int:
    # In sequences times world_size, so that there is nothing to round.
    wanted = ends[-1] * rank
    after = bisect_left(ends, wanted, key=lambda end: end * world_size)
    if after == 0:
        return 0
    before = after - 1
    return (
        before if wanted - ends[before] * world_size <= ends[after] * world_size - wanted else after
    )
