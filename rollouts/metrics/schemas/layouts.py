"""Schemas of the metric layouts API."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from web.http.field_types import Reason
from web.rules.pages import Page

_Name = Annotated[str, Meta(min_length=1, max_length=120)]
_Names = Annotated[list[_Name], Meta(max_length=200)]
_Expression = Annotated[str, Meta(min_length=1, max_length=200)]


class MetricView(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters and axes of a run's metrics page."""

    search: Annotated[str, Meta(max_length=200)] = ""
    """Text that metric names must contain."""
    under: Annotated[str, Meta(max_length=120)] = ""
    """Prefix of metric names."""
    x: Literal["step", "elapsed", "time", "amount"] = "step"
    smooth: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    pinned: _Names = []
    logarithmic: _Names = []
    """Metrics with a logarithmic axis."""
    panels: Annotated[list[_Expression], Meta(max_length=20)] = []
    """Regular expressions; each defines a chart of the metrics with matching names."""


class SetMetricLayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a layout."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    share: Literal["mine", "run", "tag"] = "mine"
    """Private, shared with all readers of this run, or with all readers of runs with `tag`."""
    tag: Annotated[str, Meta(max_length=40)] = ""
    view: MetricView
    reason: Reason = ""


class MetricLayoutRow(Struct, frozen=True, kw_only=True):
    """A saved layout."""

    id: int
    name: str
    share: Literal["mine", "run", "tag"]
    tag: str
    view: MetricView
    changed_at: datetime
    changed_by: str
    may_change: bool
    """Whether the caller may change or delete it."""


class MetricLayouts(Page[MetricLayoutRow], frozen=True, kw_only=True):
    """The layouts of a run: private ones, those of the run, and those of its tags."""
