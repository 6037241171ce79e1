"""Schemas of weights commands."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from web.http.bodies import Reason
from web.rules.pages import Page


class WeightsPin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/weights/pin``: the version that workers keep."""

    step: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    """Step in the current epoch."""
    reason: Reason = ""


class WeightsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/weights/unpin`` and ``…/sync``."""

    reason: Reason = ""


class WeightsCommandRow(Struct, frozen=True, kw_only=True):
    """A command about the weights of a run."""

    number: int
    kind: Literal["pin", "unpin", "sync"]
    epoch: int
    pinned_step: int | None
    """Version that workers keep from then on; null for the newest."""
    newest_step: int
    """The newest version at that time."""
    actor: str
    reason: str
    at: datetime


class WeightsCommands(Page[WeightsCommandRow], frozen=True, kw_only=True):
    """Current weights settings of a run, and the commands about them, newest first."""

    number: int
    """Number of the newest command, which workers report back; 0 without commands."""
    pinned_step: int | None
    acting_step: int
    """Version that workers should use: the pinned or the newest one."""
    newest_step: int
