"""Shape lists of runs, and what is asked of many at once."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.wire import Reason, RunSummary


class RunRow(RunSummary, frozen=True, kw_only=True):
    """A run as lists show it."""

    environment: str | None
    """What it rolls out: an environment, its lessons, or who registered; null for nothing yet."""


class RunList(Struct, frozen=True, kw_only=True):
    """A page of runs."""

    results: list[RunRow]
    next: str | None = None
    """Where the next page begins, for `after`; null on the last one."""
    total: int | None = None
    """Runs that the filter asks for, counted to 10,001; null on all but the first page."""


class QualifierRow(Struct, frozen=True, kw_only=True):
    """One thing that a filter may ask of a run."""

    name: str
    form: Literal["choice", "text", "number", "time"]
    meaning: str
    operators: list[str]
    choices: list[str]
    example: str


class QualifierList(Struct, frozen=True, kw_only=True):
    """Everything that a filter may ask."""

    results: list[QualifierRow]


class ValueRow(Struct, frozen=True, kw_only=True):
    """A value that runs have, and how many of them."""

    value: str
    runs: int


class ValueList(Struct, frozen=True, kw_only=True):
    """Values, the most used first."""

    results: list[ValueRow]


class Outlook(Struct, frozen=True, kw_only=True):
    """What is beside a run in a list."""

    queued: int | None = None
    """Sequences or fragments that wait for a trainer."""
    workers: int | None = None
    observed_at: datetime | None = None
    """Last proof of its fleet's state; null where nobody ought to report."""
    fleet_reason: str = ""
    """Why its fleet is as it is, or why nobody can tell."""
    return_mean: float | None = None
    """Of the last 20 training episodes."""
    returns: list[float] = []
    """The same over time, oldest first, at most 40 of them."""
    accepted_per_second: float | None = None
    """Groups, or fragments of a fleet run, that came in lately; null where nobody knows."""
    staleness_p50: float | None = None
    """Of what was served last, in versions behind the policy."""
    measured_at: datetime | None = None
    """As of when these two are."""


class OutlookList(Struct, frozen=True, kw_only=True):
    """Outlooks by the id of their run."""

    results: dict[int, Outlook]


class SetTags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tags that a run is to have, instead of those it has."""

    tags: Annotated[list[str], Meta(max_length=20)]
    reason: Reason = ""


class ActOnRuns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action on many runs: on those in `ids`, or on all that the filter `q` asks for.

    At most 100 are acted on at a time; what is left is behind `after_id` of the next request.
    """

    action: Literal[
        "pause", "resume", "drain", "stop", "kill", "archive", "unarchive", "tag", "untag"
    ]
    ids: Annotated[list[int], Meta(max_length=1000)] | None = None
    q: str | None = None
    after_id: Annotated[int, Meta(ge=0)] = 0
    tag: Annotated[str, Meta(max_length=40)] = ""
    reason: Reason = ""


class ActedOn(Struct, frozen=True, kw_only=True):
    """What became of one run; `problem` is empty where it was done."""

    id: int
    name: str
    problem: str = ""


class ActedOnRuns(Struct, frozen=True, kw_only=True):
    """What became of each run, and where to go on."""

    results: list[ActedOn]
    next_after_id: int | None
    left: int
    """Runs behind it that are still to be acted on."""
