"""Shape what happens inside a fleet, as its reports tell it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from rolldeck.weights_wire import LargeCount

# Counts that a PostgreSQL integer and bigint hold; versions as fleets report them.
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Step = Annotated[int, Meta(ge=-2, le=2**31 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=120)]
Note = Annotated[str, Meta(max_length=4000)]


class WorkerEnding(Struct, frozen=True, kw_only=True):
    """What an incarnation of a worker was in the end, and why it is no more."""

    index: Count
    incarnation: Name
    reason: Note
    node: Annotated[str, Meta(max_length=200)] = ""
    pid: LargeCount | None = None
    env_steps: LargeCount = 0
    fragments_sent: LargeCount = 0
    lost_steps: LargeCount = 0
    """Env steps in fragments that were not full, when it was last heard."""
    unsent_fragments: LargeCount = 0
    """Fragments in its spool, when it was last heard."""


class FleetEvent(Struct, frozen=True, kw_only=True):
    """Something that happened inside a fleet; becomes a run event."""

    kind: Annotated[str, Meta(min_length=1, max_length=60)]
    message: Note
    level: Literal["info", "warning", "error"] = "info"
    details: dict[str, Any] = {}
    ending: WorkerEnding | None = None
    """Of the incarnation that it speaks of, where that is no more."""


class SlotReport(Struct, frozen=True, kw_only=True):
    """State of one env slot."""

    slot: Count
    state: Literal["starting", "stepping", "waiting", "restarting", "failed", "stopped"]
    pid: LargeCount | None = None
    episodes: LargeCount = 0
    restarts: Count = 0
    error: Note = ""


class StageTiming(Struct, frozen=True, kw_only=True):
    """Windowed time of one pipeline stage."""

    mean_ms: float
    p50_ms: float
    p95_ms: float
    count: LargeCount
