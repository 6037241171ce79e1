"""Shape what is told of how episodes are spread, and of what stands out among them."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

Mode = Literal["train", "eval"]


class SpreadColumn(Struct, frozen=True, kw_only=True):
    """A stretch of time; all are equally long."""

    at: datetime
    """When it begins."""
    counts: list[int]
    """By bin, lowest first."""


class TaskSpread(Struct, frozen=True, kw_only=True):
    """One environment or lesson, over the life of the run."""

    task: str
    """Empty for groups without an environment."""
    mode: Mode
    counted: int
    mean: float
    p10: float
    p50: float
    p90: float


class EpisodeSpread(Struct, frozen=True, kw_only=True):
    """How a number is spread over the life of a run, in bins of equal width."""

    unit: Literal["episodes", "groups"]
    """What is counted: of runs that take groups a group's mean score, or its longest sequence."""
    of: Literal["return", "length"]
    least: float | None
    """Of what was counted, as `most`; null where nothing was."""
    most: float | None
    columns: list[SpreadColumn]
    tasks: list[TaskSpread]
    """All there are, whichever the columns are of."""
    counted: int
    is_sampled: bool
    """Too many to count all: a few of each stretch of the run's life stand for the others."""


class WorkerDeviation(Struct, frozen=True, kw_only=True):
    """A mean of one worker that is far from those of the others."""

    measure: Literal["return_mean", "length_mean", "aborted_share"]
    median: float
    """Over the workers."""
    score: float
    """Modified z-score; negative below the median."""


class EpisodesOfWorker(Struct, frozen=True, kw_only=True):
    """What the training episodes of one worker came to."""

    worker: int
    episodes: int
    return_mean: float
    length_mean: float
    aborted_share: float
    deviations: list[WorkerDeviation]


class EpisodeFind(Struct, frozen=True, kw_only=True):
    """A report that has an episode which somebody looks for."""

    kind: Literal["highest", "lowest", "longest", "match"]
    value: float
    """Its return, or its length."""
    report: int
    at: datetime
    worker: int
    environment: str
    mode: Mode
    policy_step: int
    """Version that acted in the last episode of the report."""


class EpisodeOutliers(Struct, frozen=True, kw_only=True):
    """What stands out among the episodes of the last seconds, of the newest 20,000 reports."""

    seconds: int
    workers: list[EpisodesOfWorker]
    extremes: list[EpisodeFind]


class EpisodeMatches(Struct, frozen=True, kw_only=True):
    """The newest reports that have an episode in a range, at most 20."""

    results: list[EpisodeFind]


class EpisodePlace(Struct, frozen=True, kw_only=True):
    """The part of an episode that one stored fragment holds."""

    fragment: int
    episode: str
    first: int
    """Its first step in the fragment, counted from 0."""
    steps: int


class EpisodeFragments(Struct, frozen=True, kw_only=True):
    """The stored fragments that hold one reported episode, in the order of their steps.

    Empty where none does: evaluations are not stored, and retention removes old fragments.
    """

    parts: list[EpisodePlace]
    candidates: int
    """Stored episodes of the worker with this return and length; the first one is shown."""
