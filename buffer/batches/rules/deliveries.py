"""Delivery of batches: shards for a trainer's ranks, and earlier batches of stock trainers.

The stock trainer names no batch: its next request acknowledges its delivered batches. An
interrupted answer is sent again. An answer that is still being sent belongs to another trainer
with the same identity, and is left alone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from itertools import accumulate
from typing import Final

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


# A process on another machine, whose state is unknown, counts as sending for this long.
SENDING_LIMIT: Final = timedelta(seconds=60)


class NextAction(Enum):
    """Action for a leased batch."""

    CONFIRM = auto()
    SEND_AGAIN = auto()
    LEAVE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Progress of the answer that carries a batch; times are from the database clock."""

    delivered_at: datetime | None
    sending_since: datetime | None
    sender_is_alive: bool | None
    """None if unknown, because the process runs on another machine."""

    def on_next_request(self, *, now: datetime) -> NextAction:
        """Return the action for this batch on the next request of the same identity."""
        if self.delivered_at is not None:
            return NextAction.CONFIRM
        if self.sending_since is None or self.sender_is_alive is False:
            return NextAction.SEND_AGAIN
        if self.sender_is_alive is None and now - self.sending_since > SENDING_LIMIT:
            return NextAction.SEND_AGAIN
        return NextAction.LEAVE
