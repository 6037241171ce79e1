"""Share batches among environments by weight, and carry over debts to later batches.

Terms, all in sequences:

- target share of an environment: its weight over the sum of the weights of all participants;
- debt: what earlier batches owed it and did not give; negative if it received more;
- credit for a batch: debt + target share · batch size.

Only differences between debts matter. After each batch, debts are shifted so that environments
with remaining groups average 0, and then bounded. An environment that was dry for hours returns
with a claim of at most :data:`DEBT_LIMIT_BATCHES` batches over the others.
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
    """Queued groups of one environment, and its claim on batches.

    Args:
        env_id: Its id, or :data:`NO_ENVIRONMENT`.
        window: Its oldest groups, oldest first.
        behind: Number of younger groups of each size, queued behind the window.
        weight: Relative share of a batch; 0 or less: only sequences that the others leave over.
        minimum: `min_batch_allocation`, a share of every batch; 0 for none.
        connected: Whether it may still push.
        debt: Debt carried over from earlier batches, in sequences.
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
        """Number of queued sequences."""
        younger = sum(size * count for size, count in self.behind.items())
        return sum(group.sequences for group in self.window) + younger

    @property
    def has_share(self) -> bool:
        """Whether it has a share: it is connected or has queued groups."""
        return self.connected or bool(self.window) or any(self.behind.values())


def target_shares(queues: Sequence[EnvironmentQueue]) -> dict[int, float]:
    """Return each environment's share of a batch; they sum to 1, or to 0 if all weights are 0."""
    weights = {queue.env_id: max(0.0, queue.weight) * queue.has_share for queue in queues}
    total = sum(weights.values())
    return {env_id: weight / total if total else 0.0 for env_id, weight in weights.items()}


def credits_of(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, float]:
    """Return each environment's credit for the next batch, in sequences.

    The credit of an environment with a weight of 0 or less is minus infinity.
    """
    targets = target_shares(queues)
    return {
        queue.env_id: queue.debt + targets[queue.env_id] * batch_size if queue.weight > 0 else -inf
        for queue in queues
    }


def required_sequences(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, int]:
    """Return the minimum sequences per batch of connected environments that have a minimum.

    Minimums that sum to more than the batch are scaled down proportionally.
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
    """Yield the groups of the windows: first for the minimums, then by most remaining credit.

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
    """Return the debts after a batch with `taken` sequences by environment."""
    credit = credits_of(queues, batch_size=batch_size)
    left = {
        queue.env_id: credit[queue.env_id] - taken.get(queue.env_id, 0)
        for queue in queues
        if queue.weight > 0 and queue.has_share
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
    return {queue.env_id: owed.get(queue.env_id, 0.0) for queue in queues if queue.has_share}


def _rounded(debt: float) -> float:
    """Return a debt without the rounding errors of its sums, and without -0.0."""
    return round(debt, DEBT_DECIMALS) + 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def forecast(queues: Sequence[EnvironmentQueue], *, batch_size: int) -> dict[int, int]:
    """Estimate the sequences of each environment in the next batch.

    Environments with the most credit are served first, so all end at one level of credit. A
    bisection over their queued sequences finds that level.
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
