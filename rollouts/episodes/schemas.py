"""Schemas of the API of episodes."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.inspect.rules.fragment_views import StepCurves
from rollouts.episodes.rules import EpisodeMeans, TaskEpisodes, TaskSpread
from web.rules.pages import Page


class EpisodeRow(Struct, frozen=True, kw_only=True):
    """Statistics of the episodes that ended at one worker within one report.

    Returns are undiscounted sums of rewards; lengths are in env steps. The counters at the end are
    those of the run when the window was stored.
    """

    id: int
    at: datetime
    environment: str
    worker: int
    mode: Literal["train", "eval"]
    seconds: float
    count: int
    return_mean: float
    return_min: float
    return_max: float
    return_p10: float
    return_p50: float
    return_p90: float
    discounted_return_mean: float
    length_mean: float
    length_max: int
    terminated: int
    truncated: int
    aborted: int
    policy_step: int
    env_steps_total: int
    served_steps: int
    recent_return_mean: float | None
    """Mean of the run's last 20 training returns; null before the first."""


class EpisodeSummary(Struct, frozen=True, kw_only=True):
    """Episodes of the last seconds by environment, and means over environments.

    *Weighted* counts each episode once, *unweighted* each environment; null without episodes.
    """

    seconds: int
    since: datetime | None
    """Start of the counted interval if there were too many reports for the requested one."""
    tasks: list[TaskEpisodes]
    train_weighted: EpisodeMeans | None
    train_unweighted: EpisodeMeans | None
    eval_weighted: EpisodeMeans | None
    eval_unweighted: EpisodeMeans | None


class Episodes(Page[EpisodeRow], frozen=True, kw_only=True):
    """Windows of ended episodes, newest first."""


class EpisodeSpread(Struct, frozen=True, kw_only=True):
    """Distribution of a value over the life of a run, in bins of equal width."""

    unit: Literal["episodes", "groups"]
    """Counted value; for runs of groups, a group's mean score or its longest sequence."""
    of: Literal["return", "length"]
    least: float | None
    """Least value, as `most` is the greatest; null without values."""
    most: float | None
    counts: list[int]
    """Counts by bin, lowest first; empty without values."""
    tasks: list[TaskSpread]
    """All environments or lessons, regardless of the filter of the counts."""
    counted: int
    is_sampled: bool
    """Whether there were too many values, so that a sample of each interval was counted."""


class PartOfEpisode(Struct, frozen=True, kw_only=True):
    """The part of an episode in one stored fragment, and the use of this fragment."""

    fragment: int
    number: int
    """Counts the fragments of the env slot from 0."""
    first: int
    """Index of the part's first step in the fragment, from 0."""
    steps: int
    total: int
    """Env steps of the whole fragment."""
    reward: float
    """Sum of the rewards of the part."""
    epoch: int
    version_min: int
    version_max: int
    """`version_min` to `version_max`: the policy versions that acted in the fragment."""
    state: str
    drop_reason: str
    batch: str | None
    step: int | None
    """Ordinal of its batch, which is the train step."""
    received_at: datetime


class EpisodeDetail(Struct, frozen=True, kw_only=True):
    """One episode of a step fleet, over all stored fragments that hold it."""

    id: str
    slot: str
    """Env slot and incarnation."""
    environment: str
    worker: str
    steps: int
    """Stored env steps."""
    total_return: float
    """Sum of the stored rewards."""
    begins: bool
    """False if its first steps are not stored."""
    outcome: str
    """`terminated` or `truncated`; empty if its end is not stored."""
    is_partial: bool
    """True if the search reached its limit, so that parts may be missing."""
    parts: list[PartOfEpisode]
    """In the order of the steps."""
    curves: StepCurves
