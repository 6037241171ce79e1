"""Schemas of the API of saved views."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from web.http.bodies import Reason
from web.rules.pages import Page

_Word = Annotated[str, Meta(min_length=1, max_length=400)]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Panels = Annotated[list[_Name], Meta(max_length=24)]
_Look = Annotated[str, Meta(min_length=1, max_length=4000)]
_Looks = Annotated[dict[_Name, _Look], Meta(max_length=50)]
_Runs = Annotated[str, Meta(min_length=1, max_length=2000)]


class View(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A view of charts, with the names of its search parameters in addresses."""

    runs: _Runs | UnsetType = UNSET
    """Comma-separated run names: all runs of a comparison, or those beside the run of the page."""
    q: _Word | UnsetType = UNSET
    """Words that metric names must contain."""
    under: _Word | UnsetType = UNSET
    """Prefix of metric names."""
    x: Literal["step", "time", "elapsed", "amount"] | UnsetType = UNSET
    """Axis; each page has a default."""
    start: float | UnsetType = field(name="from", default=UNSET)
    """Start of the visible range on the axis."""
    end: float | UnsetType = field(name="to", default=UNSET)
    """End of the visible range on the axis."""
    last: Annotated[int, Meta(ge=1, le=86_400)] | UnsetType = UNSET
    """The newest seconds of the run, in place of a fixed range."""
    smooth: Annotated[float, Meta(gt=0, lt=1)] | UnsetType = UNSET
    """Weight of the moving average."""
    charts: _Panels | UnsetType = UNSET
    """Panels: names of metrics, regular expressions as `/regex/`, and expressions as `= a / b`."""
    looks: _Looks | UnsetType = UNSET
    """Look of each changed chart by its name: `log,clip,from:0,to:1,x:metric,hide:line`."""
    hide: _Runs | UnsetType = UNSET
    """Comma-separated names of hidden runs."""
    by: Annotated[str, Meta(pattern=r"^(all|tag|project|config\..{1,200})$")] | UnsetType = UNSET
    """What runs are grouped by."""
    spread: Literal["range"] | UnsetType = UNSET
    """Spread of a group; the standard deviation if absent."""
    marks: Literal["notes", "none"] | UnsetType = UNSET
    """Shown annotations; all if absent."""
    config: Literal["all"] | UnsetType = UNSET
    """Whether settings are listed that all runs share."""


class SetView(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a saved view."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    share: Literal["mine", "run", "tag", "all"] = "mine"
    """Private, or shared with all readers of a run, of runs with a tag, or of every run."""
    run: Annotated[str, Meta(max_length=60)] = ""
    """The run of a view that is shared with its readers."""
    tag: Annotated[str, Meta(max_length=40)] = ""
    view: View
    reason: Reason = ""


class ViewRow(Struct, frozen=True, kw_only=True):
    """A saved view."""

    id: int
    name: str
    share: Literal["mine", "run", "tag", "all"]
    run: str
    run_uid: str | None
    """Immutable id of the run."""
    tag: str
    view: View
    changed_at: datetime
    changed_by: str
    may_change: bool
    """Whether the caller may change or delete it."""


class Views(Page[ViewRow], frozen=True, kw_only=True):
    """Saved views: private ones and shared ones."""
