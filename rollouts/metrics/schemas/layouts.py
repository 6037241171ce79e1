"""Shape how somebody likes to look at the metrics of runs."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.wire import Reason

_Name = Annotated[str, Meta(min_length=1, max_length=120)]
_Names = Annotated[list[_Name], Meta(max_length=200)]
_Expression = Annotated[str, Meta(min_length=1, max_length=200)]


class MetricLook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the metrics of a run are looked at with."""

    words: Annotated[str, Meta(max_length=200)] = ""
    """That the names hold."""
    under: Annotated[str, Meta(max_length=120)] = ""
    """What the names begin with."""
    x: Literal["step", "elapsed", "time", "amount"] = "step"
    smooth: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    pinned: _Names = []
    logarithmic: _Names = []
    """Metrics over a log axis."""
    panels: Annotated[list[_Expression], Meta(max_length=20)] = []
    """Regular expressions; each is a chart of the metrics whose names it matches."""


class SetMetricLayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layout as it is to be."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    share: Literal["mine", "run", "tag"] = "mine"
    """With nobody, with all who read this run, or with all who look at a run of `tag`."""
    tag: Annotated[str, Meta(max_length=40)] = ""
    look: MetricLook
    reason: Reason = ""


class MetricLayoutRow(Struct, frozen=True, kw_only=True):
    """A kept layout."""

    id: int
    name: str
    share: Literal["mine", "run", "tag"]
    tag: str
    look: MetricLook
    changed_at: datetime
    changed_by: str
    may_change: bool
    """Whether whoever asks may change or delete it."""


class MetricLayouts(Struct, frozen=True, kw_only=True):
    """The layouts for a run: one's own, those of the run, those of its tags."""

    results: list[MetricLayoutRow]
