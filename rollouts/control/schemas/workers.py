"""Schemas of the worker operations API."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

Incarnation = Annotated[str, Meta(min_length=1, max_length=120)]
Reason = Annotated[str, Meta(max_length=2000)]


class WorkerRestart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/workers/{worker}/restart``."""

    incarnation: Incarnation
    """Incarnation to end, from the fleet's state; a different one is rejected."""
    reason: Reason = ""


class WorkerCordon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/workers/{worker}/cordon``."""

    incarnation: Incarnation
    """Running incarnation, from the fleet's state; a different one is rejected."""
    reason: Reason = ""


class WorkerUncordon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/workers/{worker}/uncordon``."""

    reason: Reason = ""


class RequestStacks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/workers/{worker}/stacks``."""

    incarnation: Incarnation
    """Incarnation asked; a different one does not answer."""
    reason: Reason = ""


class WorkerStacks(Struct, frozen=True, kw_only=True):
    """Stacks of the Python threads of a worker's process at the last request."""

    state: Literal["never", "requested", "answered", "timeout"]
    """`never`: no request yet. `timeout`: no answer within 15 s."""
    worker: int
    incarnation: str = ""
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    lines: list[str] = []
    """Lines by thread, the innermost call last; at most 1,000."""
    node: str = ""
    process: str = ""
    note: str = ""
    """Reason for missing or incomplete stacks."""
