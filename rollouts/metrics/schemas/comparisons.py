"""Shape the comparisons of runs that people keep."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.wire import Reason

_Name = Annotated[str, Meta(min_length=1, max_length=120)]
_Metrics = Annotated[list[_Name], Meta(max_length=24)]


class ComparisonLook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of which runs stands beside each other."""

    runs: Annotated[list[_Name], Meta(min_length=1, max_length=20)]
    """Their order gives them their looks."""
    metrics: _Metrics = []
    x: Literal["step", "elapsed", "time", "amount"] = "step"
    begin: float | None = None
    """Of the range on the x axis, in its unit; null with `end`: everything."""
    end: float | None = None
    smooth: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    logarithmic: _Metrics = []
    hidden: Annotated[list[_Name], Meta(max_length=20)] = []
    """Runs that are not drawn."""
    config: Literal["differing", "all"] = "differing"
    prompt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Digest of the one whose samples stand beside each other."""


class KeepComparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison as it is to be kept."""

    name: Annotated[str, Meta(min_length=1, max_length=120)]
    remarks: Annotated[str, Meta(max_length=20_000)] = ""
    look: ComparisonLook
    reason: Reason = ""


class ComparisonRow(Struct, frozen=True, kw_only=True):
    """A kept comparison."""

    id: int
    name: str
    remarks: str
    look: ComparisonLook
    created_at: datetime
    created_by: str


class Comparisons(Struct, frozen=True, kw_only=True):
    """Kept comparisons, newest first."""

    results: list[ComparisonRow]
