"""Decoded groups and their rules, independent of the codec."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from buffer.ingest.rules import groups as group_rules
from buffer.ingest.rules.groups import Lengths, Violation
from buffer.items.rules.limits import DEFAULTS, Limits
from buffer.items.rules.score_statistics import mean_and_deviation
from rolldeck.groups import overrides_of
from rolldeck.ragged import Rows
from rolldeck.training import advantages
from rolldeck.training.advantages import Rule


class DecodingOptions(TypedDict, total=False):
    """Fields of :class:`Rules`."""

    limits: Limits
    lenient: bool
    takes_unscored: bool
    advantages: str


class Rules(Struct, frozen=True, kw_only=True):
    """Limits and options for decoding a push."""

    limits: Limits = DEFAULTS
    lenient: bool = False
    takes_unscored: bool = False
    """Whether groups may have sequences without a score."""
    advantages: str = ""
    """Rule of `rolldeck.training.advantages` for groups without advantages; may be empty."""

    def advantages_of(
        self, lengths: Lengths, scores: NDArray[Any], fields: Mapping[str, Any]
    ) -> NDArray[np.float64] | None:
        """Return the advantages to add to a group with these open fields, ``[S]``, or None.

        None if the group has its own, if a lenient run accepted a wrong number of scores, or if
        a value is not finite, which JSON cannot represent.
        """
        missing = self.advantages and "advantages" not in lengths.rows
        tokens = np.array(lengths.rows["tokens"], dtype=np.int64)
        if not missing or not 0 < len(scores) == len(tokens):
            return None
        found = advantages.of_batch(
            scores,
            np.zeros_like(tokens),
            rule=cast(Rule, self.advantages),
            lengths=tokens,
            zero_advantage=overrides_of(fields, sequences=len(tokens)).zero_advantage,
        )
        return found if np.isfinite(found).all() else None


class ShortRollouts(NamedTuple):
    """The sequences of a group of which others have no score."""

    unscored: int
    """Number of sequences without a score."""
    scores: list[float]
    tokens: list[int]
    """Length of each scored sequence."""


class Group(Struct, frozen=True, kw_only=True):
    """A pushed group: metadata for the queue, and the bytes to serve."""

    content: bytes
    codec: str
    """Codec of `content`: ``json`` or ``msgpack``."""
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
    """True if it has at least two sequences, all with equal scores."""
    policy_step: int | None = None
    """Policy version that sampled it, as claimed by the producer; not a field of Atropos."""
    epoch: int | None = None
    short: ShortRollouts | None = None
    """Set if sequences without a score were removed."""
    problem: tuple[str, int] | None = None
    """Lesson and number of the leased problem that it answers."""


def unscored_group(*, env_id: int | None, sequences: int) -> Group:
    """Return a group none of whose sequences has a score: it has no sequences."""
    return Group(
        content=b"",
        codec="json",
        env_id=env_id,
        sequences=0,
        tokens=0,
        longest_tokens=0,
        score_mean=0.0,
        score_min=0.0,
        score_max=0.0,
        score_std=0.0,
        notes=[],
        short=ShortRollouts(sequences, [], []),
    )


def checked_group(
    content: bytes,
    *,
    codec: str,
    env_id: int | None,
    lengths: Lengths,
    tokens: Rows,
    masks: Rows,
    scores: NDArray[np.floating],
    broken: list[Violation],
    version: tuple[int | None, Any] = (None, None),
    unscored: int = 0,
) -> Group:
    """Return a group that passed its checks.

    `broken` lists the violations that a lenient run accepts. `version` is the (step, epoch) of
    the policy that sampled it; without a step, `epoch` may have another meaning and is ignored.
    """
    step, epoch = version
    is_epoch = type(epoch) is int and 0 <= epoch < 1 << 31
    rows = lengths.rows["tokens"]
    zero_variance = len(scores) == len(rows) and advantages.has_zero_variance(scores)
    scores = np.asarray(scores if len(scores) else [0.0], dtype=np.float64)
    mean, std = mean_and_deviation(scores)
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
        + group_rules.notes(lengths)
        + group_rules.mask_notes(tokens, masks),
        zero_variance=zero_variance,
        policy_step=step,
        epoch=epoch if step is not None and is_epoch else None,
        short=ShortRollouts(unscored, scores.tolist(), list(rows)) if unscored else None,
    )


class ScoredData(Struct, frozen=True, kw_only=True):
    """A trajectory group of S sequences of T tokens."""

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[float]
    advantages: list[list[float]] | None = None
    ref_logprobs: list[list[float]] | None = None
    messages: list[list[dict[str, Any]]] | None = None
    generation_params: dict[str, Any] | None = None
    inference_logprobs: list[list[float]] | None = None
    overrides: list[dict[str, Any]] | None = None
    group_overrides: dict[str, Any] | None = None
    images: Any = None
    env_id: int | None = None
    distill_token_ids: list[list[list[int]]] | None = None
    distill_logprobs: list[list[list[float]]] | None = None
