"""Shape what people ask of one worker of a fleet, and what it answers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

Incarnation = Annotated[str, Meta(min_length=1, max_length=120)]
Reason = Annotated[str, Meta(max_length=2000)]


class WorkerRestart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/workers/{worker}/restart``."""

    incarnation: Incarnation
    """The one that shall end, as the fleet's state names it: no other one will."""
    reason: Reason = ""


class WorkerCordon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/workers/{worker}/cordon``."""

    incarnation: Incarnation
    """The one that is there, as the fleet's state names it: refused if it is another one."""
    reason: Reason = ""


class WorkerUncordon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/workers/{worker}/uncordon``."""

    reason: Reason = ""


class StacksWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/workers/{worker}/stacks``."""

    incarnation: Incarnation
    """Whose; another one does not answer for it."""
    reason: Reason = ""


class WorkerStacks(Struct, frozen=True, kw_only=True):
    """What the Python threads of a worker's process were at when it was last asked."""

    state: Literal["never", "requested", "answered", "timeout"]
    """`never`: nobody has asked it yet. `timeout`: no answer came within 15 s."""
    worker: int
    incarnation: str = ""
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    lines: list[str] = []
    """Thread by thread, the innermost call last; at most 1,000."""
    node: str = ""
    process: str = ""
    note: str = ""
    """Why there is nothing, or no more."""
