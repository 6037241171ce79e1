"""The two gates that pause producers, with their inequalities as text."""

import math
from dataclasses import dataclass
from typing import Literal

from rolldeck.pacing import PauseRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A rule that pauses producers; amounts count sequences or fragments."""

    rule: Literal["tolerance", "staleness"]
    closed: bool
    amount: float
    limit: float
    reopens_after: float
    """Amount to be trained on before the gate opens; 0 while it is open."""
    condition: str
    """The inequality: ``queued 913 > 3 × 256 = 768``."""


def tolerance_gate(rule: PauseRule, *, queued: int, over: bool) -> Gate:
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
    return Gate(
        rule="tolerance",
        closed=over,
        amount=queued,
        limit=limit,
        reopens_after=max(0.0, queued - rule.resume_at) if over else 0.0,
        condition=condition,
    )


def staleness_gate(*, admitted: int, trained: int, batches_ahead: float, batch_size: int) -> Gate:
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
    return Gate(
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
