"""What the queue must know of a group, in whichever codec it came."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from buffer.ingest.rules import groups as group_rules
from buffer.ingest.rules.groups import Lengths, Violation
from buffer.items.rules.limits import Limits
from rolldeck import advantages


class Rules(Struct, frozen=True, kw_only=True):
    """By what a push is judged."""

    limits: Limits
    lenient: bool
    advantages: str = ""
    """Rule of :data:`rolldeck.advantages.RULES` for groups that bring none; empty for none."""

    def advantages_of(self, lengths: Lengths, scores: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return ``[S]`` what to add to a group, or None.

        Nothing is added to a group that brings its own, nor to one that a lenient run forgave a
        wrong number of scores, nor what no JSON could tell.
        """
        missing = self.advantages and "advantages" not in lengths.rows
        if not missing or not 0 < len(scores) == len(lengths.rows["tokens"]):
            return None
        found = advantages.RULES[self.advantages](scores)
        return found if np.isfinite(found).all() else None


class Group(Struct, frozen=True, kw_only=True):
    """One pushed group: what the queue must know of it, and the bytes to serve."""

    content: bytes
    codec: str
    """``json`` or ``msgpack``: what `content` is."""
    env_id: int | None
    sequences: int
    tokens: int
    longest_tokens: int
    score_mean: float
    score_min: float
    score_max: float
    score_std: float
    notes: list[str]
    zero_variance: bool = False
    """It has two sequences or more, and their scores are equal."""
    policy_step: int | None = None
    """Version that sampled it, as its producer says; Atropos has no such field."""
    epoch: int | None = None


def checked_group(
    content: bytes,
    *,
    codec: str,
    env_id: int | None,
    lengths: Lengths,
    scores: NDArray[np.floating],
    broken: list[Violation],
    version: tuple[int | None, Any] = (None, None),
) -> Group:
    """Return a group that passed its checks.

    `broken` are the rules a lenient run forgave; `version` is (step, epoch) of the policy that
    sampled it. Without a step, `epoch` may be anybody's word for anything, and is not looked at.
    """
    step, epoch = version
    is_epoch = type(epoch) is int and 0 <= epoch < 1 << 31
    rows = lengths.rows["tokens"]
    zero_variance = len(scores) == len(rows) and advantages.has_zero_variance(scores)
    scores = np.asarray(scores if len(scores) else [0.0], dtype=np.float64)
    with np.errstate(all="ignore"):
        mean, std = float(scores.mean()), float(scores.std())
    return Group(
        content=content,
        codec=codec,
        env_id=env_id,
        sequences=len(rows),
        tokens=sum(rows),
        longest_tokens=max(rows, default=0),
        score_mean=mean,
        score_min=float(scores.min()),
        score_max=float(scores.max()),
        score_std=std,
        notes=[f"{violation.path[0]}: {violation.kind}" for violation in broken]
        + group_rules.notes(lengths),
        zero_variance=zero_variance,
        policy_step=step,
        epoch=epoch if step is not None and is_epoch else None,
    )
