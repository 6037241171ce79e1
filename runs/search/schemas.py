"""Schemas of run lists and of bulk actions."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from runs.lifecycle.schemas import RunSummary
from web.http.bodies import Reason
from web.rules.pages import Page


class RunRow(RunSummary, frozen=True, kw_only=True):
    """A run in a list."""

    environment: str | None
    """Its environment, its lessons, or the registered environments; null if there are none yet."""
    columns: dict[str, float | str | bool | None] | UnsetType = UNSET
    """Values of the columns asked for; null where the run has none. Only in lists with columns."""


class RunList(Page[RunRow], frozen=True, kw_only=True):
    """A page of runs."""

    total: int | None = None
    """Number of matching runs, counted up to 10,001; null on all but the first page."""


class ColumnList(Page[str], frozen=True, kw_only=True):
    """Names of columns, such as `config.buffer.batch_size` and `metric.loss`."""


class QualifierRow(Struct, frozen=True, kw_only=True):
    """A qualifier of the filter language."""

    name: str
    form: Literal["choice", "text", "number", "time", "value"]
    meaning: str
    operators: list[str]
    choices: list[str]
    example: str


class QualifierList(Page[QualifierRow], frozen=True, kw_only=True):
    """All qualifiers of the filter language."""


class ValueRow(Struct, frozen=True, kw_only=True):
    """A value and the number of rows that have it."""

    value: str
    count: int


class ValueList(Page[ValueRow], frozen=True, kw_only=True):
    """Values, the most used first."""


class RunActivity(Struct, frozen=True, kw_only=True):
    """Recent activity of a run, shown in lists."""

    queued: int | None = None
    """Sequences or fragments waiting for a trainer."""
    workers: int | None = None
    observed_at: datetime | None = None
    """Last heartbeat of its fleet; null if none is expected."""
    fleet_reason: str = ""
    """Reason of its fleet's state, or why that is unknown."""
    return_mean: float | None = None
    """Mean over the last 20 training episodes; for an outside run, mean score of its newest groups.
    """
    return_source: Literal["", "episodes", "scores"] = ""
    """What `return_mean` is of: training episodes, or the groups of the newest train step."""
    returns: list[float] = []
    """History of `return_mean`, oldest first, at most 40 values."""
    accepted_per_second: float | None = None
    """Recent rate of groups, or of fragments for a fleet run; null if unknown."""
    staleness_p50: float | None = None
    """Median staleness of the last served batches, in policy versions."""
    measured_at: datetime | None = None
    """Time at which these two were measured."""


class RunActivityList(Struct, frozen=True, kw_only=True):
    """Run summaries by run id."""

    results: dict[int, RunActivity]


class SetTags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New tags of a run; they replace the existing ones."""

    tags: Annotated[list[str], Meta(max_length=20)]
    reason: Reason = ""


class ActOnRuns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action on many runs: on those in `ids`, or on all that match the filter `q`.

    An empty filter matches all runs; it needs their number in `all_runs`. At most 100 runs are
    processed per request; continue with `after_id`.
    """

    action: Literal[
        "pause", "resume", "drain", "stop", "kill", "archive", "unarchive", "delete", "tag", "untag"
    ]
    ids: Annotated[list[int], Meta(max_length=1000)] | None = None
    q: str | None = None
    all_runs: Annotated[int, Meta(ge=0)] | None = None
    """Number of runs in the list without a filter, as shown there: at most 10,001. Required with an
    empty `q`.
    """
    after_id: Annotated[int, Meta(ge=0)] = 0
    tag: Annotated[str, Meta(max_length=40)] = ""
    reason: Reason = ""
    """Required for `delete`."""


class ActedOn(Struct, frozen=True, kw_only=True):
    """Result for one run; `problem` is empty on success."""

    id: int
    uid: str
    """Immutable id of the run."""
    name: str
    problem: str = ""


class ActedOnRuns(Struct, frozen=True, kw_only=True):
    """Results per run, and where to continue."""

    results: list[ActedOn]
    next_after_id: int | None
    left: int
    """Number of runs still to be processed."""


class LiveRunRow(RunRow, frozen=True, kw_only=True):
    """A run in the live list, with its summary while it is active.

    The last heartbeat of its fleet, which changes every second, is in the part `heartbeats`.
    """

    queued: int | UnsetType | None = UNSET
    """Sequences or fragments waiting for a trainer."""
    workers: int | UnsetType | None = UNSET
    fleet_reason: str | UnsetType = UNSET
    """Reason of its fleet's state, or why that is unknown."""
    return_mean: float | UnsetType | None = UNSET
    """Mean over the last 20 training episodes; for an outside run, mean score of its newest groups.
    """
    return_source: Literal["", "episodes", "scores"] | UnsetType = UNSET
    """What `return_mean` is of: training episodes, or the groups of the newest train step."""
    returns: list[float] | UnsetType = UNSET
    """History of `return_mean`, oldest first, at most 40 values."""
    accepted_per_second: float | UnsetType | None = UNSET
    """Recent rate of groups, or of fragments for a fleet run; null if unknown."""
    staleness_p50: float | UnsetType | None = UNSET
    """Median staleness of the last served batches, in policy versions."""
    measured_at: datetime | UnsetType | None = UNSET
    """Time at which these two were measured."""
