"""Schemas of the saved comparisons API."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from web.http.field_types import Reason
from web.rules.pages import Page

_Name = Annotated[str, Meta(min_length=1, max_length=120)]
_Metrics = Annotated[list[_Name], Meta(max_length=24)]


class ComparisonView(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a comparison: runs, metrics and range."""

    runs: Annotated[list[_Name], Meta(min_length=1, max_length=20)]
    """Their order determines their appearance."""
    metrics: _Metrics = []
    x: Literal["step", "elapsed", "time", "amount"] = "step"
    begin: float | None = None
    """Bounds of the x axis in its unit; null with `end`: the entire range."""
    end: float | None = None
    smooth: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    logarithmic: _Metrics = []
    hidden: Annotated[list[_Name], Meta(max_length=20)] = []
    """Hidden runs."""
    config: Literal["differing", "all"] = "differing"
    prompt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Digest of the problem whose samples are compared."""


class SaveComparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison to save."""

    name: Annotated[str, Meta(min_length=1, max_length=120)]
    remarks: Annotated[str, Meta(max_length=20_000)] = ""
    view: ComparisonView
    reason: Reason = ""


class ComparisonRow(Struct, frozen=True, kw_only=True):
    """A saved comparison."""

    id: int
    name: str
    remarks: str
    view: ComparisonView
    created_at: datetime
    created_by: str


class Comparisons(Page[ComparisonRow], frozen=True, kw_only=True):
    """Saved comparisons, newest first."""
