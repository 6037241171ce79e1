"""Plan the next batch: the queued groups of each environment, or the reason why none is ready.

Groups are sorted by preference (:mod:`buffer.batches.rules.batch_plan`): first what meets the
minimums, then by credit, oldest first within an environment. :func:`exact_fill` takes the first
choice in that order that sums exactly. Invariants:

- the sizes sum to `batch_size`, and no group is chosen twice;
- weights never make a batch wait;
- a minimum makes a batch wait only while its environment is connected and dry, and no longer
  than `deadline_seconds` after the batch could have been filled without it;
- if some choice meets every minimum of the environments that are not dry, these minimums are met.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, NamedTuple

from buffer.items.rules.exact_fill import exact_fill, oldest_prefix, reachable_sums, window_length

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
    for queue in sorted(queues, key=lambda one: one.window[0].id if one.window else inf):
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
    unserved = [
        left[queue.env_id]
        for queue in queues
        if queue.env_id in left and queue.sequences > taken.get(queue.env_id, 0)
    ]
    level = sum(unserved) / len(unserved) if unserved else 0.0
    limit = float(DEBT_LIMIT_BATCHES * batch_size)
    # Rounded, because sums have rounding errors; adding 0.0 turns -0.0 into 0.0.
    owed = {
        env_id: round(min(limit, max(-limit, debt - level)), DEBT_DECIMALS) + 0.0
        for env_id, debt in left.items()
    }
    return {queue.env_id: owed.get(queue.env_id, 0.0) for queue in queues if queue.has_share}


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


class NoBatch(StrEnum):
    """Reason why no batch is ready."""

    TOO_FEW = "too_few"
    """Fewer sequences are queued than a batch holds."""
    NO_EXACT_FILL = "no_exact_fill"
    """No choice of groups sums exactly to the batch size."""
    WAITING_FOR_MINIMUM = "waiting_for_minimum"
    """A connected environment has not delivered its minimum yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The `count` oldest groups of one size of one environment that are younger than `after`."""

    env_id: int
    sequences: int
    count: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Composition of the next batch."""

    chosen: list[int]
    """Ids of groups from the windows, oldest first."""
    behind: list[Behind]
    """Further groups, from behind the windows."""
    composition: dict[int, int]
    """Sequences by environment."""
    shares: dict[int, float]
    """Target shares by environment."""
    debts: dict[int, float]
    """Debts after this batch, in sequences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """Reason why no batch is ready, and state for the next attempt."""

    reason: NoBatch
    waiting_for: tuple[int, ...] = ()
    """Environments whose minimum is missing."""
    blocked_since: datetime | None = None
    """Time since which a batch could have been filled without these minimums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """A choice of groups that sums exactly."""

    chosen: list[tuple[int, QueuedGroup]]
    behind: list[Behind]

    def by_environment(self) -> dict[int, int]:
        taken: Counter[int] = Counter()
        for env_id, group in self.chosen:
            taken[env_id] += group.sequences
        for part in self.behind:
            taken[part.env_id] += part.sequences * part.count
        return dict(taken)


def plan_batch(
    queues: Sequence[EnvironmentQueue],
    *,
    batch_size: int,
    now: datetime,
    blocked_since: datetime | None = None,
    deadline_seconds: float | None,
) -> BatchPlan | NoPlan:
    """Return the next batch, or the reason why none is ready.

    Args:
        queues: The environments of a run, each once.
        batch_size: Sequences per batch, at least 1.
        now: Time of the attempt.
        blocked_since: The value returned by the previous attempt.
        deadline_seconds: Longest delay of a batch by a dry minimum; None for no limit.
    """
    if sum(queue.sequences for queue in queues) < batch_size:
        return NoPlan(reason=NoBatch.TOO_FEW)
    required = required_sequences(queues, batch_size=batch_size)
    have = {queue.env_id: queue.sequences for queue in queues}
    dry = tuple(env_id for env_id, sequences in required.items() if have[env_id] < sequences)
    fill = _fill(queues, required=required, dry=dry, batch_size=batch_size)
    if fill is None:
        return NoPlan(reason=NoBatch.NO_EXACT_FILL)
    since = blocked_since or now
    if dry and (deadline_seconds is None or now < since + timedelta(seconds=deadline_seconds)):
        return NoPlan(reason=NoBatch.WAITING_FOR_MINIMUM, waiting_for=dry, blocked_since=since)
    taken = fill.by_environment()
    return BatchPlan(
        chosen=sorted(group.id for _, group in fill.chosen),
        behind=fill.behind,
        composition=taken,
        shares=target_shares(queues),
        debts=debts_after(queues, taken, batch_size=batch_size),
    )


def _fill(
    queues: Sequence[EnvironmentQueue],
    *,
    required: Mapping[int, int],
    dry: Iterable[int],
    batch_size: int,
) -> _Fill | None:
    """Return the preferred choice that meets the minimums, else one that sums exactly."""
    credit = credits_of(queues, batch_size=batch_size)
    fill = _preferred(queues, required=required, credit=credit, batch_size=batch_size)
    if fill is None:
        return None
    must = {env_id: least for env_id, least in required.items() if env_id not in set(dry)}
    taken = fill.by_environment()
    if all(taken.get(env_id, 0) >= least for env_id, least in must.items()):
        return fill
    return _by_amounts(queues, must=must, credit=credit, batch_size=batch_size) or fill


def _preferred(
    queues: Sequence[EnvironmentQueue],
    *,
    required: Mapping[int, int],
    credit: Mapping[int, float],
    batch_size: int,
) -> _Fill | None:
    """Return the first choice in the order of preference that sums exactly."""
    order = [
        (queue.env_id, group)
        for queue, group in by_preference(queues, required=required, credit=credit)
    ]
    prefix = oldest_prefix([group.sequences for _, group in order], batch_size)
    if prefix is not None:
        return _Fill(chosen=[order[place] for place in prefix], behind=[])
    length = window_length(batch_size)
    weighed, younger = order[:length], order[length:]
    stock = _Stock(queues, weighed, younger)
    fill = exact_fill(
        [group.sequences for _, group in weighed], behind=stock.by_size(), target=batch_size
    )
    if fill is None:
        return None
    chosen = [weighed[place] for place in fill.chosen]
    left = dict(credit)
    for env_id, group in chosen:
        left[env_id] -= group.sequences
    return _Fill(chosen=chosen, behind=stock.shared_out(fill.behind, left))


class _Stock:
    """Groups behind the weighed window, known by environment and size only."""

    def __init__(
        self,
        queues: Sequence[EnvironmentQueue],
        weighed: Sequence[tuple[int, QueuedGroup]],
        younger: Sequence[tuple[int, QueuedGroup]],
    ) -> None:
        self._after = {queue.env_id: 0 for queue in queues} | {
            env_id: group.id for env_id, group in weighed
        }
        self._left = {queue.env_id: Counter(dict(queue.behind)) for queue in queues}
        for env_id, group in younger:
            self._left[env_id][group.sequences] += 1

    def by_size(self) -> dict[int, int]:
        total: Counter[int] = Counter()
        for counts in self._left.values():
            total.update(counts)
        return dict(total)

    def shared_out(self, quotas: Mapping[int, int], credit: dict[int, float]) -> list[Behind]:
        """Assign the groups of `quotas` (by size) to the environments with the most credit."""
        shares: Counter[tuple[int, int]] = Counter()
        for size, count in quotas.items():
            for _ in range(count):
                owners = [env_id for env_id, counts in self._left.items() if counts[size] > 0]
                env_id = max(owners, key=credit.__getitem__)
                self._left[env_id][size] -= 1
                credit[env_id] -= size
                shares[env_id, size] += 1
        return [
            Behind(env_id=env_id, sequences=size, count=count, after=self._after[env_id])
            for (env_id, size), count in shares.items()
        ]


def _by_amounts(
    queues: Sequence[EnvironmentQueue],
    *,
    must: Mapping[int, int],
    credit: Mapping[int, float],
    batch_size: int,
) -> _Fill | None:
    """Return a choice that meets every minimum of `must`, or None.

    First chooses each environment's number of sequences, as near to its credit as possible; then
    takes its oldest groups that sum to that number.
    """
    given = []
    for queue in queues:
        sizes = Counter(dict(queue.behind))
        sizes.update(group.sequences for group in queue.window)
        least = must.get(queue.env_id, 0)
        given.append(reachable_sums(sizes, batch_size) >> least << least)
    following = [1]
    for sums in reversed(given):
        following.append(_sums_of_both(sums, following[-1], batch_size))
    following.reverse()
    if not following[0] >> batch_size & 1:
        return None
    rest = batch_size
    chosen: list[tuple[int, QueuedGroup]] = []
    behind: list[Behind] = []
    for place, queue in enumerate(queues):
        possible = [
            n
            for n in _members(given[place])
            if n <= rest and following[place + 1] >> (rest - n) & 1
        ]
        amount = min(possible, key=lambda n: abs(n - max(0.0, credit[queue.env_id])))
        part = (
            _preferred([queue], required={}, credit=credit, batch_size=amount) if amount else None
        )
        if part is not None:
            chosen += part.chosen
            behind += part.behind
        rest -= amount
    return _Fill(chosen=chosen, behind=behind)


def _members(sums: int) -> list[int]:
    """Return the numbers whose bits are set, smallest first."""
    return [place for place, bit in enumerate(reversed(f"{sums:b}")) if bit == "1"]


def _sums_of_both(first: int, second: int, target: int) -> int:
    """Return the bit set of all sums up to `target` of one number from each bit set."""
    few, many = sorted((first, second), key=int.bit_count)
    sums = 0
    for number in _members(few):
        sums |= many << number
    return sums & ((1 << (target + 1)) - 1)
