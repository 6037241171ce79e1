"""Shape what the registry of environments says."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from runs.wire import Reason

EnvironmentKind = Literal["steps", "tokens", "outside"]


class EnvironmentDenial(Struct, frozen=True, kw_only=True):
    """That an administrator keeps new runs from an environment."""

    reason: str
    denied_at: datetime
    denied_by: str


class EnvironmentVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/environments/verdict``."""

    spec: Annotated[str, Meta(min_length=1, max_length=220)]
    is_allowed: bool
    reason: Reason = ""
    """Needed where it is denied: whoever asks for it is told."""


class TryEnvironment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/environments/try``."""

    spec: Annotated[str, Meta(min_length=1, max_length=220)]
    kwargs: dict[str, Any] = {}
    """Of its constructor."""
    steps: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """To play at most."""


class TriedEpisode(Struct, frozen=True, kw_only=True):
    """One episode of actions drawn at random."""

    steps: int
    ended: Literal["terminated", "truncated", "cut"]
    """`cut`: it was still going on when the steps were used up."""
    total_return: float | None
    """Null where a reward was not finite."""
    rewards: list[float | None]
    """Of the first hundred steps."""
    steps_per_second: float
    outside: str
    """What of an observation was not of the form that the environment says; empty: nothing."""


class TriedEnvironment(Struct, frozen=True, kw_only=True):
    """What came of trying an environment; `trouble` is empty where all went well."""

    spec: str
    trouble: str
    is_missing: bool
    """The web side's machine lacks it; others may have it."""
    seconds: float
    observation: str
    action: str
    episode: TriedEpisode | None


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
    denied: EnvironmentDenial | None = None
    """Null: new runs may ask for it, where it is registered."""


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
