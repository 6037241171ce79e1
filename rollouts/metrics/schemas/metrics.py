"""Shape what the API takes and gives about the numbers that trainers and the deck write down."""

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

NonFinite = Literal["NaN", "Infinity", "-Infinity"]
"""A number that JSON has no sign for, as text."""
SAMPLES_AT_MOST: Final = 1000
"""Of one push."""


class Metric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number at one of the trainer's steps."""

    name: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[\w./ -]+$")]
    step: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    value: float | NonFinite


class MetricsPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/metrics``."""

    samples: Annotated[list[Metric], Meta(min_length=1, max_length=SAMPLES_AT_MOST)]


class MetricsReceipt(Struct, frozen=True, kw_only=True):
    """Answer to a push of metrics."""

    stored: int


class MetricRow(Struct, frozen=True, kw_only=True):
    """One stored number."""

    id: int
    at: datetime
    name: str
    step: int
    value: float | NonFinite


class Metrics(Struct, frozen=True, kw_only=True):
    """The newest stored numbers, oldest first."""

    results: list[MetricRow]


class MetricNews(Struct, frozen=True, kw_only=True):
    """How many names a run has samples of, and the id of the newest: enough to know of news."""

    keys: int
    newest: int
    """0 before the first."""


class MetricKey(Struct, frozen=True, kw_only=True):
    """One name that a run has samples of, and the last one to arrive."""

    name: str
    step: int
    value: float | NonFinite
    at: datetime


class MetricKeys(Struct, frozen=True, kw_only=True):
    """Names of a run's metrics, in their order."""

    results: list[MetricKey]
    total: int
    """Names that match, on all pages."""
    next: str | None
    """The `after` of the next page; null on the last one."""


class MetricNames(Struct, frozen=True, kw_only=True):
    """All names of a run's metrics, in their order: 20,000 at most."""

    names: list[str]


class MetricSamples(Struct, frozen=True, kw_only=True):
    """Every sample of one name in the order of arrival, as columns of equal length."""

    name: str
    step: list[int]
    value: list[float | NonFinite]
    at: list[float]
    """Seconds since 1970."""
    amount: list[int]
    """Tokens that the run had served by then; env steps made, of a fleet run."""
    next: int | None
    """The `after` of the next page; null where there is no more now."""


class MetricLine(Struct, frozen=True, kw_only=True):
    """One series condensed into buckets: columns of equal length, one place a bucket, x rising.

    A value that is not finite is null here and counted in `nans` or `infinities`.
    """

    run: str
    name: str
    samples: int
    """In the range, those included that are not finite."""
    nans: int
    infinities: int
    bucket: float
    """Width of a bucket in units of x; what lies in one was put together."""
    is_exact: bool
    """Every bucket holds one sample, so `last` says all: the columns below it are empty."""
    x: list[float]
    """Where a bucket ends: the place of its last sample."""
    last: list[float | None]
    """Value of the sample that came last at the furthest place; null: not finite."""
    x_first: list[float]
    min: list[float | None]
    """Null: no finite value in the bucket."""
    max: list[float | None]
    mean: list[float | None]
    count: list[int]
    """Samples in the bucket, those included that are not finite."""
    gaps: list[int]
    """Samples in the bucket that are not finite; empty where no bucket has any."""


class MetricLines(Struct, frozen=True, kw_only=True):
    """Lines of a chart, in the order of the runs and names asked for."""

    x: Literal["step", "time", "elapsed", "amount"]
    """Unit of every x: train steps, seconds since 1970 or since the run began, or tokens served
    (env steps of fleets)."""
    lines: list[MetricLine]
