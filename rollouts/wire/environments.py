"""Shape what the registry of environments says."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

EnvironmentKind = Literal["steps", "tokens", "outside"]


class KnownEnvironment(Struct, frozen=True, kw_only=True):
    """An environment that runs name or may name.

    Rates, rewards and shares are of the newest runs that use it, and of the newest data of each:
    see :class:`KnownEnvironments`.
    """

    name: str
    """Its spec, or the name under which it registered."""
    kind: EnvironmentKind
    """Stepped by a fleet, a lesson of a language run, or registered from outside."""
    runs: int
    active_runs: int
    last_seen_at: datetime | None
    """When it, or the fleet that uses it, last said anything."""
    newest_run: str | None
    registered: bool
    """Whether a run of this platform may name it; those from outside register themselves."""
    presets: list[str]
    per_hour: float | None = None
    """Groups in the last hour; training episodes where it is stepped. Null: there was no data."""
    reward_mean: float | None = None
    """Mean score of groups, or return of training episodes."""
    zero_variance_share: float | None = None
    """Part of the groups of two or more sequences whose scores are all equal."""
    looked_at: int = 0
    """Groups or episodes that these figures are of."""


class KnownEnvironments(Struct, frozen=True, kw_only=True):
    """A page of environments, by name."""

    results: list[KnownEnvironment]
    next: str | None
    looked_at_runs: int
    """Runs that were searched for environments: the newest ones."""
    has_older_runs: bool
    runs_each: int
    """Newest runs of an environment that its figures are of."""
    groups_each: int
    """Newest groups of each of them that were looked at."""
    windows_each: int
    """Newest reports of episodes, where a fleet steps it."""


class EnvironmentRun(Struct, frozen=True, kw_only=True):
    """A run that uses an environment."""

    name: str
    status: str
    status_changed_at: datetime
    created_at: datetime
    last_seen_at: datetime | None
    lessons: list[str]
    """Those of its lessons that use it."""
    instances: int
    """Environments of this name that registered."""


class KnownEnvironmentDetail(Struct, frozen=True, kw_only=True):
    """An environment, the newest runs that use it, and what to launch it with."""

    environment: KnownEnvironment
    runs: list[EnvironmentRun]
    config: dict[str, Any]
    """Least configuration of a run that uses it; empty where nothing of ours launches it."""
