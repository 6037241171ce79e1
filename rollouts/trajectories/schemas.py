"""API schemas of the search for trajectories in all runs."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from web.rules.pages import Page


class TrajectoryRow(Struct, frozen=True, kw_only=True):
    """A trajectory group, or an episode of a fleet."""

    kind: Literal["group", "episode"]
    id: str
    """Id of the group, or of the episode: its slot, a slash and its number."""
    run: str
    """Address of the run."""
    project: str | None
    environment: str
    lesson: str
    """Lesson of a group; empty for episodes."""
    score: float | None
    """Mean score of a group, or return of an episode; null if it is not finite."""
    score_min: float | None
    """Lowest score of a group; null for episodes."""
    score_max: float | None
    sequences: int | None
    """Number of sequences of a group; null for episodes."""
    length: int | None
    """Tokens of a group's longest sequence, or env steps of an episode; null if not reported."""
    worker: str
    policy_step: int | None
    at: datetime
    """Arrival of a group, or report of an episode."""
    excerpt: str
    """Beginning of a group's first prompt; empty for episodes and for groups without text."""
    answer: str
    """Beginning of the last answer of its first sequence, without reasoning."""


class TrajectoryList(Page[TrajectoryRow], frozen=True, kw_only=True):
    """Found trajectories of one kind."""

    is_partial: bool
    """True if the search reached its row limit: older trajectories may match too."""
    runs: int
    """Number of runs searched."""
    runs_left_out: int
    """Number of older runs that were not searched, because a search covers 500."""
