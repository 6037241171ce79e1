"""Schemas of the API of remembered metric choices."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from web.rules.pages import Page

_Name = Annotated[str, Meta(min_length=1, max_length=120)]
_Names = Annotated[list[_Name], Meta(max_length=200)]
_Expression = Annotated[str, Meta(min_length=1, max_length=200)]
ChoicePage = Literal["metrics", "compare"]
ChoiceKind = Literal["fleet", "language", "outside", "mixed"]


class MetricChoiceView(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Charts and axes of a page."""

    metrics: _Names = []
    """Pinned metrics of the metrics page, or charts of a comparison; empty: the defaults."""
    x: Literal["step", "elapsed", "time", "amount"] = "step"
    smooth: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    logarithmic: _Names = []
    """Metrics with a logarithmic axis."""
    panels: Annotated[list[_Expression], Meta(max_length=20)] = []
    """Regular expressions; each defines a chart of the metrics with matching names."""


class SetMetricChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A choice to remember."""

    page: ChoicePage
    kind: ChoiceKind
    """Kind of the runs; `mixed` for a comparison of several kinds."""
    view: MetricChoiceView | None
    """Null: forget the choice, so that the page shows its defaults."""


class MetricChoiceRow(Struct, frozen=True, kw_only=True):
    """The choice of a person on one page, for one kind of run."""

    page: ChoicePage
    kind: ChoiceKind
    view: MetricChoiceView
    changed_at: datetime


class MetricChoices(Page[MetricChoiceRow], frozen=True, kw_only=True):
    """The caller's choices, by page and kind."""
