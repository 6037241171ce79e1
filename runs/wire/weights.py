"""Shape what people order about weights, and what holds."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.wire import Reason


class WeightsPin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/weights/pin``: the version that workers keep."""

    step: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    """Of the present epoch."""
    reason: Reason = ""


class WeightsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/weights/unpin`` and ``…/sync``."""

    reason: Reason = ""


class WeightsOrderRow(Struct, frozen=True, kw_only=True):
    """Something that a person ordered about the weights of a run."""

    number: int
    kind: Literal["pin", "unpin", "sync"]
    epoch: int
    pinned_step: int | None
    """Version that workers keep from then on; null: the newest."""
    newest_step: int
    """Version that was the newest at that time."""
    actor: str
    reason: str
    at: datetime


class WeightsOrders(Struct, frozen=True, kw_only=True):
    """What holds for the weights of a run, and how it came to that."""

    number: int
    """Of the newest order; workers tell under which they act. 0: there was none."""
    pinned_step: int | None
    acting_step: int
    """Version that workers are to act with: the one that is pinned, or the newest."""
    newest_step: int
    results: list[WeightsOrderRow]
    """Newest first."""
