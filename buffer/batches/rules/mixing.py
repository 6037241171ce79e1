"""Share batches among environments by weight, and carry over what a batch could not share.

Terms, all in sequences:

- target share of an environment: its weight over the weights of all that take part;
- debt: what it was owed by the batches so far and did not get; negative when it got ahead;
- credit for a batch: debt + target share · batch size.

Only differences between debts matter. After each batch they are shifted so that the environments
that had more to give are level on average, then bounded: an environment that was dry for hours
comes back with at most :data:`DEBT_LIMIT_BATCHES` batches ahead of the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, NamedTuple

DEBT_LIMIT_BATCHES: Final = 2
DEBT_DECIMALS: Final = 6
_LEVEL_STEPS: Final = 50


class QueuedGroup(NamedTuple):
    """A group in the queue; a smaller id is older."""

    id: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentQueue:
    """What one environment has in the queue, and what it may claim.

    Args:
        env_id: Its id, or :data:`NO_ENVIRONMENT`.
        window: Its oldest groups, oldest first.
        behind: Size → how many younger groups of that size are queued behind the window.
        weight: Its part of a batch relative to others; 0 or less: only what others leave.
        minimum: `min_batch_allocation`, a share of every batch; 0 for none.
        connected: Whether it may still push.
        debt: Carried over from the batches before, in sequences.
    """

    env_id: int
    window: Sequence[QueuedGroup] = ()
    behind: Mapping[int, int] = field(default_factory=dict)
    weight: float = 1.0
    minimum: float = 0.0
    connected: bool = False
    debt: float = 0.0

    @property
    def sequences(self) -> int:
        """Sequences in the queue."""
        younger = sum(size * count for size, count in self.behind.items())
        return sum(group.sequences for group in self.window) + younger

    @property
    def takes_part(self) -> bool:
        """Whether it has a share: it is connected, or has something in the queue."""
        return self.connected or bool(self.window) or any(self.behind.values())


def target_shares(queues: Sequence[EnvironmentQueue]) -> dict[int, float]:
    """Return each environment's share of a batch; they sum to 1, or to 0 without any weight."""
    weights = {queue.env_id: max(0.0, queue.weight) * queue.takes_part for queue in queues}
    total = sum(weights.values())
    return {env_id: weight / total if total else 0.0 for env_id, weight in weights.items()}


def credits_of(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, float]:
    """Return what each environment may claim of the next batch, in sequences.

    Minus infinity for weights of 0 or less: they get what others leave.
    """
    targets = target_shares(queues)
    return {
        queue.env_id: queue.debt + targets[queue.env_id] * batch_size if queue.weight > 0 else -inf
        for queue in queues
    }


def required_sequences(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, int]:
    """Return the sequences that connected environments must have in a batch, where any.

    Minimums that sum to more than the whole batch are scaled down together.
    """
    minimums = {queue.env_id: queue.minimum for queue in queues if queue.connected}
    scale = max(1.0, sum(minimums.values()))
    required = {env_id: int(batch_size * share / scale) for env_id, share in minimums.items()}
    return {env_id: sequences for env_id, sequences in required.items() if sequences > 0}


def by_preference(
    queues: Sequence[EnvironmentQueue],
    *,
    required: Mapping[int, int],
    credit: Mapping[int, float],
) -> Iterator[tuple[EnvironmentQueue, QueuedGroup]]:
    """Yield every group of the windows: first the minimums, then whoever has most credit left.

    Each environment's groups come oldest first; ties go to the oldest group.
    """
    taken = dict.fromkeys(credit, 0)
    starts = {}
    for queue in sorted(queues, key=_age):
        start = 0
        for group in queue.window:
            if taken[queue.env_id] >= required.get(queue.env_id, 0):
                break
            taken[queue.env_id] += group.sequences
            start += 1
            yield queue, group
        starts[queue.env_id] = start
    heap = [
        (taken[queue.env_id] - credit[queue.env_id], queue.window[start].id, start, queue)
        for queue in queues
        if (start := starts[queue.env_id]) < len(queue.window)
    ]
    heapify(heap)
    while heap:
        ahead, _, place, queue = heappop(heap)
        group = queue.window[place]
        yield queue, group
        if place + 1 < len(queue.window):
            following = queue.window[place + 1].id
            heappush(heap, (ahead + group.sequences, following, place + 1, queue))


def _age(queue: EnvironmentQueue) -> float:
    return queue.window[0].id if queue.window else inf


def debts_after(
    queues: Sequence[EnvironmentQueue], taken: Mapping[int, int], *, batch_size: int
) -> dict[int, float]:
    """Return the debts once a batch with `taken` sequences by environment has left."""
    credit = credits_of(queues, batch_size=batch_size)
    left = {
        queue.env_id: credit[queue.env_id] - taken.get(queue.env_id, 0)
        for queue in queues
        if queue.weight > 0 and queue.takes_part
    }
    level = _mean(
        [
            left[queue.env_id]
            for queue in queues
            if queue.env_id in left and queue.sequences > taken.get(queue.env_id, 0)
        ]
    )
    limit = float(DEBT_LIMIT_BATCHES * batch_size)
    owed = {
        env_id: _rounded(min(limit, max(-limit, debt - level))) for env_id, debt in left.items()
    }
    return {queue.env_id: owed.get(queue.env_id, 0.0) for queue in queues if queue.takes_part}


def _rounded(debt: float) -> float:
    """Return a debt without the rounding errors of its sums, and never as -0.0."""
    return round(debt, DEBT_DECIMALS) + 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def forecast(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, int]:
    """Return how many sequences each environment will about give to the next batch.

    The most credited are served first, so all end at one level of credit: it is found by
    bisection over what they have in the queue.
    """
    have = {queue.env_id: queue.sequences for queue in queues}
    required = required_sequences(queues, batch_size=batch_size)
    credit = credits_of(queues, batch_size=batch_size)
    weighted = {env_id: claim for env_id, claim in credit.items() if claim > -inf}

    def given(level: float) -> dict[int, float]:
        return {
            env_id: min(float(have[env_id]), max(0.0, claim - level))
            for env_id, claim in weighted.items()
        }

    low = min(weighted.values(), default=0.0) - batch_size
    high = max(weighted.values(), default=0.0)
    for _ in range(_LEVEL_STEPS):
        middle = (low + high) / 2
        if sum(given(middle).values()) > batch_size:
            low = middle
        else:
            high = middle
    found = given(low)
    rest = max(0.0, batch_size - sum(found.values()))
    return {
        env_id: min(count, max(required.get(env_id, 0), int(found.get(env_id, rest)) + 1))
        for env_id, count in have.items()
    }
