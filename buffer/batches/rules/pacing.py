"""Queue sizes reported to stock Atropos environments, such that they cancel no work.

The client of atroposlib 0.4.0 (`envs/base.py`, `env_manager` and `add_train_workers`) runs as many
rollouts as the queue has room for, ``max_batches_offpolicy · batch_size // group_size −
queue_size``. It cancels rollouts beyond that, and all rollouts once there is no room. A single
environment is not affected: its groups take exactly the room that it had. With several
environments, each assumes the whole room for itself, and the groups of the others use it up while
its rollouts run. This repeats with every batch that the trainer leases.

The queue size is therefore reported in two ways. While there is room, it is the value that 0.4.0
reports. Once the tolerance is used up, and until the queue has fallen to the lower mark, each
environment has a share of the tolerance and sees only its own queued groups against that share.
Groups of other environments then cannot cancel its work. The shares sum to the tolerance.

A run that is paused, draining, stopped or failed reports :data:`HELD_BATCHES` batches to every
environment. The stock client then cancels its rollouts and starts none. It ends for good once
``current_step + queue_size · group_size // batch_size`` exceeds its total number of steps, so the
report never exceeds the remaining steps of the run. Only a completed run reports a queue that ends
the client.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal

from msgspec import Struct

from rolldeck.pacing import PauseRule

SHORTEST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 600.0


def window_seconds(leases: Iterable[tuple[int | None, float]], *, now: float) -> float:
    """Return the length of the window in which a run's trainers are measured, in seconds.

    A minute, or two cycles of a slower trainer. A shorter window would see such a trainer now
    busy, now idle. A trainer that missed two cycles no longer counts.

    Args:
        leases: Trainer and start time, in seconds, of each of the newest leases.
        now: Present time.
    """
    starts = defaultdict[int | None, list[float]](list)
    for trainer, at in leases:
        starts[trainer].append(at)
    longest = SHORTEST_SECONDS
    for times in starts.values():
        if len(times) < 2:
            continue
        before, last = sorted(times)[-2:]
        cycles = min(LONGEST_SECONDS, 2 * (last - before))
        if now - last <= cycles:
            longest = max(longest, cycles)
    return longest


def waiting_share(
    held: Iterable[tuple[float, float]], *, since: float, until: float
) -> float | None:
    """Return the fraction of the time, 0 to 1, in which a trainer held no batch.

    Args:
        held: Start and end of each of its leases, in seconds; leases may overlap, because a
            trainer may fetch the next batch while it trains.
        since: Beginning of the period.
        until: End of the period.

    Returns:
        The fraction, or None if the period is empty.
    """
    if until <= since:
        return None
    busy, reached = 0.0, since
    for began, ended in sorted(held):
        began, ended = max(began, reached), min(ended, until)
        if ended > began:
            busy += ended - began
            reached = ended
    return 1.0 - busy / (until - since)


def mean_versions(staleness: Iterable[Mapping[str, int]]) -> float | None:
    """Return the mean staleness of items in versions; None if unknown.

    Args:
        staleness: Items by versions behind, for each batch; keys that are not numbers are
            ignored.
    """
    items = by_versions(staleness)
    total = items.total()
    return sum(behind * count for behind, count in items.items()) / total if total else None


def by_versions(staleness: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Return the items of batches by versions behind; items of unknown version are omitted."""
    found: Counter[int] = Counter()
    for one in staleness:
        for behind, count in one.items():
            if behind.lstrip("-").isdigit():
                found[int(behind)] += count
    return found


# Lower bound, so that every environment gets some inference.
MIN_ENV_WEIGHT: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentShare:
    """A registered environment; `max_token_length` counts tokens."""

    env_id: int
    max_token_length: int
    weight: float
    group_size: int
    min_batch_allocation: float | None
    connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStatus:
    """Status of one environment; queue sizes count groups of its own size."""

    queue_size: int
    unallocated_fraction: float
    self_queue_size: int
    max_group_size: int
    env_weight: float
    paced: bool = False
    """Whether `queue_size` differs from that of 0.4.0: see :mod:`buffer.batches.rules.pacing`."""
    held: bool = False
    """Whether the environment must not produce, because the run is paused, draining or over."""


def environment_status(
    *,
    env_id: int,
    environments: Sequence[EnvironmentShare],
    queued: Mapping[tuple[int | None, int], int],
    batch_size: int,
) -> EnvironmentStatus:
    """Return the status of environment `env_id`.

    Args:
        env_id: One of `environments`.
        environments: All environments of the run, connected or not.
        queued: Number of queued groups by (env_id or None, sequences of a group).
        batch_size: Sequences per batch, 0 before registration.
    """
    own = next(environment for environment in environments if environment.env_id == env_id)
    sizes = {key: count for key, count in queued.items() if count > 0}
    largest = max([1, *(size for _, size in sizes)])
    group_size = max([own.group_size, *(size for env, size in sizes if env == env_id)])
    sequences: dict[int | None, int] = {}
    for (env, size), count in sizes.items():
        sequences[env] = sequences.get(env, 0) + size * count
    mine = sequences.pop(env_id, 0)
    others = (
        _remaining_of_others(sequences, environments, largest, batch_size) if largest > 1 else 0
    )
    connected = [environment for environment in environments if environment.connected]
    allocated = sum(other.min_batch_allocation or 0.0 for other in connected)
    weights = sum(other.max_token_length * max(0.0, other.weight) for other in connected)
    weight = own.max_token_length * own.weight / weights if weights > 0 else 0.0
    return EnvironmentStatus(
        queue_size=(mine + others) // group_size,
        unallocated_fraction=1.0 - min(1.0, allocated),
        self_queue_size=mine // group_size,
        max_group_size=largest,
        env_weight=max(MIN_ENV_WEIGHT, weight),
    )


def _remaining_of_others(
    sequences: Mapping[int | None, int],
    environments: Sequence[EnvironmentShare],
    largest: int,
    batch_size: int,
) -> int:
    """Return the sequences of others beyond their reservations, in packs of the largest size."""
    reserved: dict[int | None, int] = {
        other.env_id: int(batch_size * other.min_batch_allocation)
        for other in environments
        if other.connected and other.min_batch_allocation is not None
    }
    return sum(
        max(0, ceil(count / largest) * largest - reserved.get(env, 0))
        for env, count in sequences.items()
    )


HELD_BATCHES: Final = 16
"""Batches reported while environments must not produce; `max_batches_offpolicy` is 3 by default."""
ENDED_GROUPS: Final = 1 << 20
"""Groups reported by a completed run; above every tolerance and every number of steps."""


def held(
    status: EnvironmentStatus, *, batch_size: int, group_size: int, steps_left: int | None
) -> EnvironmentStatus:
    """Return the status of an environment that must not produce for now.

    Args:
        status: The status that 0.4.0 would report.
        batch_size: Sequences per batch of the run.
        group_size: Sequences per group of the environment.
        steps_left: Train steps until the planned number of the run; None if it has no such number.
    """
    groups = ceil(HELD_BATCHES * batch_size / group_size)
    if steps_left is not None:
        groups = min(groups, max(0, steps_left) * batch_size // group_size)
    return replace(status, queue_size=groups, self_queue_size=groups, paced=True, held=True)


def ended(status: EnvironmentStatus) -> EnvironmentStatus:
    """Return the status of an environment whose run is completed."""
    return replace(
        status, queue_size=ENDED_GROUPS, self_queue_size=ENDED_GROUPS, paced=True, held=True
    )


def is_over(rule: PauseRule, *, over: bool, queued: int) -> bool:
    """Return whether the queue is over its tolerance, with hysteresis between two marks.

    Args:
        rule: The two marks, in sequences.
        over: The previous result.
        queued: Number of queued sequences.
    """
    if queued >= rule.pause_above:
        return True
    return over and queued > rule.resume_at


def paced(
    status: EnvironmentStatus,
    *,
    env_id: int,
    environments: Sequence[EnvironmentShare],
    queued: Mapping[int | None, int],
    rule: PauseRule,
    over: bool,
) -> EnvironmentStatus:
    """Return the status of an environment with a paced `queue_size`.

    Args:
        status: The status that 0.4.0 would report.
        env_id: One of `environments`.
        environments: All environments of the run, connected or not.
        queued: Queued sequences by environment (None: without an environment).
        rule: The two marks of the run.
        over: Whether the queue is over its tolerance.
    """
    own = next(share for share in environments if share.env_id == env_id)
    full = ceil(rule.pause_above / own.group_size)
    if not over:
        # Packing may overestimate the queue: report at least one free place.
        return replace(status, queue_size=min(status.queue_size, max(0, full - 1)))
    theirs = {share.env_id for share in environments if share.connected}
    nobodys = sum(count for env, count in queued.items() if env not in theirs)
    room = max(0.0, rule.pause_above - nobodys) * share_of(env_id, environments)
    left = int(max(room, own.group_size)) - queued.get(env_id, 0)
    return replace(status, queue_size=max(0, full - left // own.group_size), paced=True)


def share_of(env_id: int, environments: Sequence[EnvironmentShare]) -> float:
    """Return an environment's share of the tolerance; connected environments' shares sum to 1.

    Shares follow the weights and are at least the environment's minimum share of a batch.
    """
    weights = {
        share.env_id: max(share.weight, 0.0) for share in environments if share.connected
    } or {env_id: 1.0}
    total = sum(weights.values())
    if total <= 0:
        weights, total = dict.fromkeys(weights, 1.0), float(len(weights))
    parts = {env: weight / total for env, weight in weights.items()}
    reserved = {share.env_id: share.min_batch_allocation or 0.0 for share in environments}
    raised = {env: max(part, reserved.get(env, 0.0)) for env, part in parts.items()}
    return raised.get(env_id, 0.0) / max(sum(raised.values()), 1e-9)


class PauseGate(Struct, frozen=True, kw_only=True):
    """A rule that pauses producers; amounts count sequences or fragments."""

    rule: Literal["tolerance", "staleness"]
    closed: bool
    amount: float
    limit: float
    reopens_after: float
    """Amount to be trained on before the gate opens; 0 while it is open."""
    condition: str
    """The inequality with its numbers."""


def tolerance_gate(rule: PauseRule, *, queued: int, over: bool) -> PauseGate:
    """Return the gate of the queue's length.

    Args:
        rule: The two marks.
        queued: Number of queued sequences or fragments.
        over: Whether the queue has passed the upper mark and not yet fallen to the lower one.
    """
    limit = rule.pause_above
    product = f"{rule.off_policy_tolerance:g} × {rule.batch_size:,} = {limit:,.10g}"
    condition = f"queued {queued:,} {_sign(queued, limit)} tolerance × batch = {product}"
    if over and queued < limit:
        condition += f"; resumes at {rule.resume_at:,.10g}"
    return PauseGate(
        rule="tolerance",
        closed=over,
        amount=queued,
        limit=limit,
        reopens_after=max(0.0, queued - rule.resume_at) if over else 0.0,
        condition=condition,
    )


def staleness_gate(
    *, admitted: int, trained: int, batches_ahead: float, batch_size: int
) -> PauseGate:
    """Return the gate of staleness: further items would be too stale to train on.

    Args:
        admitted: Number of sequences or fragments accepted and not dropped.
        trained: Train steps, as counted by the run's policy versions.
        batches_ahead: Batches that may be ahead of the trainer: maximum staleness + 1.
        batch_size: Sequences or fragments per train step.
    """
    limit = math.floor((batches_ahead + trained) * batch_size)
    closed = admitted >= limit
    behind = math.floor((admitted - limit) / batch_size) + 1
    return PauseGate(
        rule="staleness",
        closed=closed,
        amount=admitted,
        limit=limit,
        reopens_after=float(behind * batch_size) if closed else 0.0,
        condition=f"accepted {admitted:,} {_sign(admitted, limit)} "
        f"({batches_ahead:g} ahead + {trained:,} trained) × {batch_size:,} = {limit:,}",
    )


def _sign(amount: float, limit: float) -> str:
    if amount == limit:
        return "≥"
    return ">" if amount > limit else "<"
