"""Schemas of the API of environments and run checks."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from web.http.bodies import Reason
from web.rules.pages import Page

EnvironmentKind = Literal["steps", "tokens", "outside"]


class EnvironmentDenial(Struct, frozen=True, kw_only=True):
    """An administrator's denial of an environment to new runs."""

    reason: str
    denied_at: datetime
    denied_by: str


class EnvironmentApproval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/environments/approvals``."""

    spec: Annotated[str, Meta(min_length=1, max_length=220)]
    is_allowed: bool
    reason: Reason = ""
    """Required for a denial; shown to users who request the environment."""


class ProbeEnvironment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/environments/probes``."""

    spec: Annotated[str, Meta(min_length=1, max_length=220)]
    kwargs: dict[str, Any] = {}
    """Arguments of the constructor."""
    steps: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Maximum number of steps."""


class ProbedEpisode(Struct, frozen=True, kw_only=True):
    """One episode of random actions."""

    steps: int
    ended: Literal["terminated", "truncated", "cut"]
    """`cut`: the step limit was reached before the end of the episode."""
    total_return: float | None
    """Sum of rewards; null if a reward was not finite."""
    rewards: list[float | None]
    """Rewards of the first 100 steps."""
    steps_per_second: float
    outside: str
    """Mismatch between an observation and the declared space; empty if there is none."""


class ProbedEnvironment(Struct, frozen=True, kw_only=True):
    """Result of a probe of an environment; `trouble` is empty on success."""

    spec: str
    trouble: str
    is_missing: bool
    """Whether the web server's machine lacks the environment; others may have it."""
    seconds: float
    observation: str
    action: str
    episode: ProbedEpisode | None


class KnownEnvironment(Struct, frozen=True, kw_only=True):
    """An environment that runs use or may use.

    Rates, rewards and shares cover the newest data of the newest runs that use it: see
    :class:`KnownEnvironments`.
    """

    name: str
    """Its spec, or the name under which it registered."""
    kind: EnvironmentKind
    """Stepped by a fleet, a lesson of a language run, or registered from outside."""
    runs: int
    active_runs: int
    last_seen_at: datetime | None
    """Time of the last report of the environment, or of a fleet that uses it."""
    newest_run: str | None
    registered: bool
    """Whether a run may name it; environments from outside register themselves."""
    presets: list[str]
    per_hour: float | None = None
    """Groups in the last hour, or training episodes if a fleet steps it. Null: no data."""
    reward_mean: float | None = None
    """Mean score of groups, or return of training episodes."""
    zero_variance_share: float | None = None
    """Share of the groups whose scores are all equal, which includes those of one sequence."""
    examined: int = 0
    """Number of groups or episodes in these statistics."""
    denied: EnvironmentDenial | None = None
    """Null: available to new runs, if it is registered."""


class KnownEnvironments(Page[KnownEnvironment], frozen=True, kw_only=True):
    """A page of environments, by name."""

    examined_runs: int
    """Number of runs searched for environments, the newest."""
    has_older_runs: bool
    runs_each: int
    """Number of runs per environment in its statistics, the newest."""
    groups_each: int
    """Number of groups per run in the statistics, the newest."""
    windows_each: int
    """Number of episode reports per run in the statistics, for stepped environments."""


class EnvironmentRun(Struct, frozen=True, kw_only=True):
    """A run that uses an environment."""

    name: str
    uid: str
    """Immutable id of the run."""
    status: str
    status_changed_at: datetime
    created_at: datetime
    last_seen_at: datetime | None
    lessons: list[str]
    """The run's lessons that use it."""
    instances: int
    """Number of registered environments with this name."""


class KnownEnvironmentDetail(Struct, frozen=True, kw_only=True):
    """An environment, the newest runs that use it, and its launch configuration."""

    environment: KnownEnvironment
    runs: list[EnvironmentRun]
    config: dict[str, Any]
    """Minimal configuration of a run that uses it; empty if it cannot be launched."""


class CheckRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/run-checks``: the run to check; `config` is merged over the preset.

    The name is checked only if given. In a project, its defaults apply as for a launch. With
    `fields_only` the check validates the fields and creates no environment, which takes
    milliseconds: use it while a configuration is being edited.
    """

    name: Annotated[str, Meta(max_length=200)] = ""
    project: Annotated[str, Meta(max_length=80)] = ""
    uses_project_defaults: bool = True
    preset: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    config: dict[str, Any] = {}
    fields_only: bool = False


class FindingRow(Struct, frozen=True, kw_only=True):
    """One result of a check; `field` is its dotted path, empty for the run as a whole."""

    level: Literal["ok", "info", "warning", "error"]
    subject: str
    field: str
    message: str
    remedy: str


class RunCheck(Struct, frozen=True, kw_only=True):
    """Results of a check; nothing was stored.

    `config` is the resolved configuration with all defaults, null if it is invalid.
    `suggested_name` is a free name: that of the request or else the preset, with the next number.
    """

    result: Literal["ready", "risky", "refused"]
    config: dict[str, Any] | None
    suggested_name: str
    findings: list[FindingRow]
    seconds: float
