"""Schemas of the events inside a fleet, as sent in its reports."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from rolldeck.weights_wire import LargeCount

# Limits of PostgreSQL's integer and bigint; versions as reported by fleets.
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Step = Annotated[int, Meta(ge=-2, le=2**31 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=120)]
Note = Annotated[str, Meta(max_length=4000)]
ReportedFleetState = Literal[
    "starting", "running", "paused", "draining", "drained", "stopped", "failed"
]
ReportedWorkerState = Literal[
    "starting", "running", "paused", "draining", "respawning", "failed", "stopped"
]
ReportedSlotState = Literal["starting", "stepping", "waiting", "restarting", "failed", "stopped"]


# Limits of values from the `info` of environments.
INFO_NAMES_AT_MOST: Final = 64
INFO_NAME_LENGTH: Final = 64
INFO_NAME_PATTERN: Final = r"^[\w./ -]+$"
InfoScope = Literal["episode", "step"]
InfoProblem = Literal["out_of_range", "invalid_name", "too_many_names"]


class InfoSum(Struct, frozen=True, kw_only=True):
    """Sum of one numeric value of `info` over episodes or steps of one report window."""

    name: Annotated[str, Meta(min_length=1, max_length=INFO_NAME_LENGTH, pattern=INFO_NAME_PATTERN)]
    scope: InfoScope
    """`episode`: values of last steps; `step`: values of all other steps."""
    count: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    total: float


class InfoDrops(Struct, frozen=True, kw_only=True):
    """Values of `info` that were dropped for one reason."""

    problem: InfoProblem
    count: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    example: Annotated[str, Meta(max_length=200)] = ""
    """Name of one of them, truncated."""


class InfoWindow(Struct, frozen=True, kw_only=True):
    """Numeric values of the environments' `info` in one report window."""

    sums: Annotated[list[InfoSum], Meta(max_length=2 * INFO_NAMES_AT_MOST)] = []
    dropped: Annotated[list[InfoDrops], Meta(max_length=3)] = []


class WorkerEnding(Struct, frozen=True, kw_only=True):
    """Final state of a worker incarnation, with the reason of its end."""

    index: Count
    incarnation: Name
    reason: Note
    node: Annotated[str, Meta(max_length=200)] = ""
    pid: LargeCount | None = None
    env_steps: LargeCount = 0
    fragments_sent: LargeCount = 0
    lost_steps: LargeCount = 0
    """Env steps in incomplete fragments at its last report."""
    unsent_fragments: LargeCount = 0
    """Fragments in its spool at its last report."""


class FleetEvent(Struct, frozen=True, kw_only=True):
    """An event inside a fleet; becomes a run event."""

    kind: Annotated[str, Meta(min_length=1, max_length=60)]
    message: Note
    level: Literal["info", "warning", "error"] = "info"
    details: dict[str, Any] = {}
    ending: WorkerEnding | None = None
    """End of the incarnation that the event is about, if it has ended."""


class SlotReport(Struct, frozen=True, kw_only=True):
    """State of one env slot."""

    slot: Count
    state: ReportedSlotState
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
