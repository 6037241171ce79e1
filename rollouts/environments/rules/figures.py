"""Statistics of an environment over the newest data of the newest runs that use it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import ClassVar, Final

SHORTEST: Final = timedelta(minutes=1)
"""Shortest observation time for a rate: three groups in one second are not ten thousand an hour."""

Member = tuple[int, Sequence[int | None], Sequence[str | None]]
"""A run that uses an environment, with the indices of its environments and the names of its lessons
that do.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Newest data of one environment, or one lesson, of one run. Counts are groups or episodes."""

    run_id: int
    env_id: int | None
    lesson: str | None
    recent: int
    """Number that arrived within :attr:`Figures.WINDOW`."""
    oldest_at: datetime
    reward_sum: Fraction
    """Exact, because the sum of two finite scores may be no finite float."""
    rewarded: int
    """Number with a finite reward."""
    groups: int
    """0 for a fleet that steps the environment."""
    equal: int
    """Of these, the groups whose scores are all equal, which includes those of one sequence."""
    is_cut: bool
    """Whether the data of this run was truncated at a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Statistics of an environment; None where no data exists."""

    WINDOW: ClassVar[timedelta] = timedelta(hours=1)

    per_hour: float | None
    reward_mean: float | None
    zero_variance_share: float | None
    examined: int


def figures_of(samples: Iterable[Sample], *, members: Sequence[Member], now: datetime) -> Figures:
    """Return the statistics of the environment that is `members` of these runs.

    Means and shares weight each group (or episode) equally, regardless of its run; rates of runs
    are summed.
    """
    all_samples = list(samples)
    began = _beginnings(all_samples)
    mine = [sample for sample in all_samples if any(_is_of(sample, member) for member in members)]
    rewarded = sum(sample.rewarded for sample in mine)
    groups = sum(sample.groups for sample in mine)
    return Figures(
        per_hour=sum(_per_hour(sample, began[sample.run_id], now=now) for sample in mine)
        if mine
        else None,
        reward_mean=float(sum(sample.reward_sum for sample in mine) / rewarded)
        if rewarded
        else None,
        zero_variance_share=sum(sample.equal for sample in mine) / groups if groups else None,
        examined=rewarded,
    )


def _beginnings(samples: Sequence[Sample]) -> dict[int, datetime]:
    """Return the beginning of the observed data of each run."""
    began: dict[int, datetime] = {}
    for sample in samples:
        before = began.get(sample.run_id, sample.oldest_at)
        began[sample.run_id] = min(before, sample.oldest_at)
    return began


def _is_of(sample: Sample, member: Member) -> bool:
    """Return whether a sample belongs to a member; a member without parts covers the entire run."""
    run_id, env_ids, lessons = member
    return (
        sample.run_id == run_id
        and _covers(env_ids, sample.env_id)
        and _covers(lessons, sample.lesson)
    )


def _covers(names: Sequence[int | None] | Sequence[str | None], name: int | str | None) -> bool:
    return all(each is None for each in names) or name in names


def _per_hour(sample: Sample, began: datetime, *, now: datetime) -> float:
    """Return a rate over the window, or over the observed time if that is shorter."""
    seen = max(min(now - began, Figures.WINDOW), SHORTEST) if sample.is_cut else Figures.WINDOW
    return sample.recent * (timedelta(hours=1) / seen)
