"""Schemas of the APIs of metrics, and of the annotations of charts."""

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from web.http.bodies import Reason
from web.rules.pages import Page

NonFinite = Literal["NaN", "Infinity", "-Infinity"]
"""A value that JSON cannot represent, as text."""
SAMPLES_AT_MOST: Final = 1000
"""Maximum number of metrics per push."""


class Metric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value at one train step."""

    name: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[\w./ -]+$")]
    step: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    value: float | NonFinite


class MetricsPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/metrics``."""

    samples: Annotated[list[Metric], Meta(min_length=1, max_length=SAMPLES_AT_MOST)]


class MetricsReceipt(Struct, frozen=True, kw_only=True):
    """Answer to a push of metrics."""

    stored: int


class MetricRow(Struct, frozen=True, kw_only=True):
    """One stored value."""

    id: int
    at: datetime
    name: str
    step: int
    value: float | NonFinite


class Metrics(Page[MetricRow], frozen=True, kw_only=True):
    """Stored values, newest first."""


class MetricChanges(Struct, frozen=True, kw_only=True):
    """Number of metric names of a run and the id of the newest sample, to detect changes."""

    keys: int
    newest: int
    """0 before the first."""


class MetricKey(Struct, frozen=True, kw_only=True):
    """One metric name of a run, with its last sample to arrive."""

    name: str
    step: int
    value: float | NonFinite
    at: datetime


class MetricKeys(Page[MetricKey], frozen=True, kw_only=True):
    """Metric names of a run, in order."""

    total: int
    """Number of matching names on all pages."""


class MetricNames(Page[str], frozen=True, kw_only=True):
    """All metric names of a run, in order: at most 20,000."""


class MetricSamples(Struct, frozen=True, kw_only=True):
    """All samples of one name in order of arrival, as columns of equal length."""

    name: str
    step: list[int]
    value: list[float | NonFinite]
    at: list[float]
    """Seconds since 1970."""
    amount: list[int]
    """Tokens served by then, or env steps of a fleet run."""
    next: int | None
    """The `after` of the next page; null if there are no more samples."""


class MetricLine(Struct, frozen=True, kw_only=True):
    """One series downsampled into buckets, as columns of equal length with increasing x.

    Values that are not finite are null here and counted in `nans` or `infinities`.
    """

    run: str
    name: str
    samples: int
    """Number of samples in the range, including those that are not finite."""
    nans: int
    infinities: int
    bucket: float
    """Width of a bucket in units of x."""
    is_exact: bool
    """Whether every bucket holds one sample, equal to `last`; the columns below it are then empty.
    """
    x: list[float]
    """End of the bucket: the position of its last sample."""
    last: list[float | None]
    """Value of the last sample to arrive at the greatest position; null: not finite."""
    x_first: list[float]
    min: list[float | None]
    """Null: no finite value in the bucket."""
    max: list[float | None]
    mean: list[float | None]
    count: list[int]
    """Number of samples in the bucket, including those that are not finite."""
    gaps: list[int]
    """Number of samples in the bucket that are not finite; empty if there are none in any bucket.
    """


class MetricLines(Struct, frozen=True, kw_only=True):
    """Lines of a chart, in the order of the requested runs and names."""

    x: Literal["step", "time", "elapsed", "amount"]
    """Unit of x: train steps, seconds since 1970 or since the run began, or tokens served (env
    steps of fleets).
    """
    lines: list[MetricLine]


class ContextVersion(Struct, frozen=True, kw_only=True):
    """The newest weights at that time."""

    id: int
    epoch: int
    step: int
    published_at: datetime


class ContextBatch(Struct, frozen=True, kw_only=True):
    """A batch leased around that time."""

    id: str
    ordinal: int
    kind: Literal["groups", "fragments"]
    state: Literal["leased", "returned", "quarantined", "confirmed", "dropped"]
    trainer: str | None
    items: int
    epoch: int
    policy_step: int
    leased_at: datetime
    lease_expires_at: datetime
    settled_at: datetime | None
    with_trainer: bool
    """Whether a trainer held it while the samples of the point arrived."""


class MetricContext(Struct, frozen=True, kw_only=True):
    """Context of a run while the samples of a chart point arrived."""

    began_at: datetime
    """Arrival of the first sample."""
    ended_at: datetime
    """Arrival of the last sample."""
    step: int
    """Train step of the last sample."""
    amount: int
    """Tokens served by then, or env steps of a fleet run."""
    version: ContextVersion | None
    """Null: no version was published by then."""
    handed_out: int
    """Number of batches leased in between; of a metric of arrived data, that took the data."""
    batches: list[ContextBatch]
    """The newest of these batches and the one before them, newest first; of a metric of arrived
    data, only these batches."""


_Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class NewAnnotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A short text at a position of a run's charts."""

    text: Annotated[str, Meta(min_length=1, max_length=200)]
    at: datetime | None = None
    """Annotated time; null for the present."""
    step: _Place | None = None
    """Train step; null: derived from the run's measurements at that time."""
    amount: _Place | None = None
    """Tokens served by then, or env steps of a fleet run; null: derived from measurements."""
    reason: Reason = ""


class AnnotationRow(Struct, frozen=True, kw_only=True):
    """A chart annotation of a run."""

    id: int
    text: str
    at: datetime
    step: int | None
    """Null: unknown, because nothing was measured by then."""
    amount: int | None
    created_at: datetime
    created_by: str
    is_own: bool
    """Whether the caller wrote it."""


class ChartEvent(Struct, frozen=True, kw_only=True):
    """A change of a run shown in charts: of its state, settings, epoch or fleet."""

    id: int
    """Id of the event; with the kind `weights_version`, of the version."""
    kind: str
    message: str
    at: datetime
    step: int | None
    amount: int | None


class Annotations(Page[AnnotationRow], frozen=True, kw_only=True):
    """The newest annotations and changes of a run's charts, oldest first."""

    events: list[ChartEvent]
    """The newest changes, oldest first."""
