"""Schemas of the events inside a fleet, as sent in its reports, and of published weights."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

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
INFO_NAMES_RESERVED: Final = frozenset(
    {"final_info", "final_obs", "final_observation", "terminal_observation"}
)
"""Names in `info` of Gymnasium's own values, which are no numbers."""
INFO_KEYS_AT_MOST: Final = 16
"""Keys of `info` whose values a run stores in its fragments."""
InfoScope = Literal["episode", "step", "missing"]
InfoProblem = Literal["out_of_range", "invalid_name", "too_many_names"]
LargeCount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Range of a PostgreSQL bigint."""


class TensorSpec(Struct, frozen=True, kw_only=True):
    """One tensor of a weights file; dtype in safetensors' notation (F32, BF16, I64)."""

    name: str
    dtype: str
    shape: list[int]


class WeightsManifest(Struct, frozen=True, kw_only=True):
    """Expected content of a weights file, checked by the platform and by every reader."""

    epoch: Annotated[int, Meta(ge=0, lt=1 << 31)]
    step: Annotated[int, Meta(ge=-1, lt=1 << 31)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Meta(ge=8, le=2**63 - 1)]
    tensors: Annotated[list[TensorSpec], Meta(min_length=1)]


class WeightsTransfers(Struct, frozen=True, kw_only=True):
    """Counts of the versions offered to a worker since the start of its incarnation."""

    received: LargeCount = 0
    adopted: LargeCount = 0
    superseded: LargeCount = 0
    """Versions replaced by a later one before they were used."""
    refused: LargeCount = 0
    """Versions whose tensors do not match the policy."""
    failed: LargeCount = 0
    """Failed attempts to receive a version."""
    received_bytes: LargeCount = 0
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Time spent receiving."""
    order: LargeCount = 0
    """Number of the newest weight order that the worker follows."""


class ReplicaReport(Struct, frozen=True, kw_only=True):
    """A replica of a run's inference server, as a worker has reached it."""

    address: Annotated[str, Meta(max_length=200)]
    """Host and port."""
    version: tuple[int, int] | None = None
    """Epoch and step that the worker last found or loaded there; null: none yet."""
    contact_seconds: float | None = None
    """Time since its last response to an update or a check; null: never."""
    error: Annotated[str, Meta(max_length=300)] = ""
    """Reason why it could not be reached at the last attempt; empty if it could."""


class InfoSum(Struct, frozen=True, kw_only=True):
    """Sum of one numeric value of `info` over the steps of one report window."""

    name: Annotated[str, Meta(min_length=1, max_length=INFO_NAME_LENGTH, pattern=INFO_NAME_PATTERN)]
    scope: InfoScope
    """`episode`: values of last steps; `step`: values of all other steps; `missing`: 1 for each
    step without a number of a stored key, 0 for the others."""
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

    sums: Annotated[list[InfoSum], Meta(max_length=3 * INFO_NAMES_AT_MOST)] = []
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


EPISODE_SLOT_LENGTH: Final = 48
"""Characters of a slot's name in the ids of its episodes; of longer names the last ones."""


def slot_name(*, worker: int, slot: int, incarnation: str) -> str:
    """Return the name of an env slot in fragments: ``w0-3@5f2c``."""
    return f"w{worker}-{slot}@{incarnation}"


def episode_id(slot: str, number: int) -> str:
    """Return the id of an episode in fragments: ``w0-3@5f2c/12``.

    Args:
        slot: Name of the slot.
        number: Counts the episodes of the slot, from 1.
    """
    return f"{slot[-EPISODE_SLOT_LENGTH:]}/{number}"


class EpisodeWindow(Struct, frozen=True, kw_only=True):
    """Episodes that ended in one report window, for one environment."""

    environment: Annotated[str, Meta(min_length=1, max_length=200)]
    worker: Count
    mode: Literal["train", "eval"] = "train"
    seconds: Annotated[float, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    return_sum: float
    return_mean: float
    return_min: float
    return_max: float
    return_p10: float
    return_p50: float
    return_p90: float
    discounted_return_mean: float
    length_mean: float
    length_max: Count
    terminated: Count
    truncated: Count
    aborted: Count
    returns: Annotated[list[float], Meta(max_length=100)] = []
    """The last returns of the window, oldest first, at most 100."""
    lengths: Annotated[list[Count], Meta(max_length=100)] = []
    """Lengths of the same episodes in env steps."""
    incarnation: Annotated[str, Meta(max_length=120)] = ""
    """Incarnation of the worker, as in the names of its slots."""
    slots: Annotated[list[Count], Meta(max_length=103)] = []
    """Env slots of the same episodes, then of the lowest, the highest and the longest one. Empty if
    fragments do not name the episodes."""
    numbers: Annotated[list[LargeCount], Meta(max_length=103)] = []
    """Numbers of the same episodes in their slots, from 1."""
    policy_step: Step = -2


class MachineUsage(Struct, frozen=True, kw_only=True):
    """Usage of a machine by all of its processes, as its operating system and driver report it."""

    cpu_cores: float
    """Mean number of busy cores since the previous measurement."""
    cpus: Count
    memory_bytes: LargeCount
    """Memory that is not available to new processes."""
    memory_total_bytes: LargeCount
    gpus: Count = 0
    gpu_percent: float | None = None
    """Mean utilization of its GPUs; null without one or without an answer of the driver."""
    gpu_memory_bytes: LargeCount | None = None
    """Used memory of all GPUs."""
    gpu_memory_total_bytes: LargeCount | None = None
