"""Schemas of the APIs of fleets, their workers, weight syncs and machines."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rolldeck.wire import (
    Desired,
    ReplicaReport,
    ReportedFleetState,
    ReportedSlotState,
    ReportedWorkerState,
    StageTiming,
    WeightsTransfers,
)
from runs.lifecycle.schemas import PolicyVersionRow
from web.http.bodies import Reason
from web.rules.pages import Page

Incarnation = Annotated[str, Meta(min_length=1, max_length=120)]


class SlotState(Struct, frozen=True, kw_only=True):
    """Last reported state of one env slot."""

    slot: int
    state: ReportedSlotState
    pid: int | None
    episodes: int
    restarts: int
    error: str


class WorkerState(Struct, frozen=True, kw_only=True):
    """State of one rollout worker; `unknown` without a report for 5 seconds."""

    index: int
    incarnation: str
    state: Literal[ReportedWorkerState, "unknown"]
    reason: str
    heartbeat_at: datetime
    age_seconds: float
    node: str
    pid: int | None
    restarts: int
    announced_step: int
    staged_step: int
    active_step: int
    env_steps: int
    env_steps_per_second: float
    fragments_cut: int
    fragments_sent: int
    to_send: int
    outstanding: int
    dropped_steps: dict[str, int]
    stages: dict[str, StageTiming]
    time_use: str
    """The largest part of the worker's time as a sentence; not a diagnosis of the run."""
    slots: list[SlotState]
    shares: dict[str, float]
    """Share of the time, 0 to 1, of each stage and each reason to wait."""
    cpu_percent: float | None
    """Percent of one core, including env processes; null if not measured, as for all below.
    """
    memory_bytes: int | None
    """Resident memory, including env processes."""
    gpu_percent: float | None
    """Utilization of the worker's device by all processes."""
    gpu_memory_bytes: int | None
    """Memory used on the worker's device by all processes."""
    transfers: WeightsTransfers
    replicas: list[ReplicaReport]
    """Replicas of its inference server, as of `heartbeat_at`; empty if it generates itself."""
    is_to_restart: bool = False
    """Whether a replacement was requested and has not started."""
    last_log: str = ""
    """The newest line of its log, truncated; untrusted output of its processes."""
    cordon: Literal["", "requested", "draining", "out", "lifting"] = ""
    """`requested`: a cordon was requested, but its manager has not confirmed it. `out`: the worker
    has ended and has no replacement. `lifting`: the cordon was lifted, but its manager has not
    confirmed it.
    """
    cordoned_at: datetime | None = None
    cordoned_by: str = ""
    cordon_reason: str = ""


class RecordingRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/recordings``: a request to record the next episodes."""

    episodes: Annotated[int, Meta(ge=1, le=4)] = 1
    worker: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Worker index; null: any running worker."""
    slot: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Slot; null: any active slot."""
    environment: Annotated[str, Meta(max_length=200)] = ""
    """Environment spec; empty: any environment of the run."""
    reason: Reason = ""


class RecordingRow(Struct, frozen=True, kw_only=True):
    """A requested recording of an episode."""

    id: str
    state: Literal["requested", "recording", "ready", "failed"]
    reason: str
    """Reason of its failure."""
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    environment: str
    worker: int | None
    slot: int | None
    episode_return: float | None
    episode_length: int | None
    """Env steps."""
    outcome: str
    policy_step: int
    """Version that acted at the episode's end; -2 while unknown."""
    media_type: str
    """`video/webm`, or `text/plain` with a form feed between frames; empty before it is ready."""
    frames: int
    frames_left_out: int
    frames_per_second: float | None
    width: int
    height: int
    note: str
    """Reason why it is not a video, if it is not."""
    size_bytes: int


class Recordings(Page[RecordingRow], frozen=True, kw_only=True):
    """Recordings of a run, newest first."""


class FleetLog(Struct, frozen=True, kw_only=True):
    """The end of one log of a fleet: plain text without escape sequences and control characters."""

    state: Literal["read", "waiting", "silent"]
    """`read`: up to date; `waiting` for the fleet; `silent`: no manager is running to read it."""
    note: str
    """Reason for waiting or for missing lines; empty if there is none."""
    worker: int | None
    slot: int | None
    lines: list[str]
    """Oldest first; unless the state is `read`, the lines of the previous reading."""
    read_at: datetime | None
    """Time at which the fleet read them; null: never."""
    node: str
    path: str
    """Path of the file on that node."""


class RunHeartbeat(Struct, frozen=True, kw_only=True):
    """The last report of a run's fleet."""

    run_id: int
    observed_at: datetime


class FleetState(Struct, frozen=True, kw_only=True):
    """Desired and last reported state of a fleet."""

    desired: Desired
    observed: Literal[ReportedFleetState, "none", "unknown"]
    observed_at: datetime | None = None
    """Last report of any of its managers, which proves its state."""
    age_seconds: float | None = None
    confirmed_at: datetime | None = None
    """The same while reports are expected; null if none are, so the proof does not expire."""
    launched_at: datetime | None = None
    attempt: int = 0
    """Number of managers launched."""
    reason: str = ""
    env_steps_total: int = 0
    workers: list[WorkerState] = []


class AttemptRow(Struct, frozen=True, kw_only=True):
    """One incarnation of a worker, with the values of its last report."""

    id: int
    worker: int
    incarnation: str
    started_at: datetime
    """Time of its first report."""
    ended_at: datetime | None
    """End time; null while it is running."""
    reason: str
    """Reason of its end."""
    node: str
    pid: int | None
    env_steps: int
    fragments_sent: int
    lost_steps: int
    """Env steps in incomplete fragments."""
    unsent_fragments: int
    """Fragments in its spool, which another worker on its node sends."""


class Attempts(Page[AttemptRow], frozen=True, kw_only=True):
    """Incarnations of a fleet's workers, newest first."""


class WeightSyncRow(Struct, frozen=True, kw_only=True):
    """Times at which a worker was notified of, held, and used a version; null: not reported."""

    epoch: int
    step: int
    worker: int
    announced_at: datetime | None
    staged_at: datetime | None
    active_at: datetime | None


class WeightsProgress(Struct, frozen=True, kw_only=True):
    """Sync progress of a run's newest weights; the fleet API reports it by worker."""

    newest: PolicyVersionRow | None
    acting_step: int
    """Target version of the workers: the newest, or the pinned one."""
    order: int
    """Number of the newest weights command; 0: there was none."""
    announced: int
    """Number of workers notified of the newest version."""
    staged: int
    """Number of workers that hold it."""
    active: int
    """Number of workers that use it."""
    reported_at: datetime | None
    """Time of the last progress of any worker with one of the newest versions."""


class WeightSyncs(Page[WeightSyncRow], frozen=True, kw_only=True):
    """Weight syncs by worker, newest version first."""


class WorkerAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a request to restart or cordon a worker, or for the stacks of its threads."""

    incarnation: Incarnation
    """Running incarnation, from the fleet's state; a different one is rejected."""
    reason: Reason = ""


class WorkerUncordon(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/workers/{worker}/uncordon``."""

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


class CordonMachine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/cluster/nodes/{node}/cordon``."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class MachineCordonRow(Struct, frozen=True, kw_only=True):
    """A cordoned machine, and the progress of its draining."""

    node: str
    """Ray's id of the node."""
    host: str
    reason: str
    cordoned_by: str
    cordoned_at: datetime
    workers: int
    """Workers of all runs still on the machine, as last reported."""
    managers: list[str]
    """Runs whose manager is on the machine, as last reported; managers stay until the machine
    stops.
    """


class MachineCordonAnswer(Struct, frozen=True, kw_only=True):
    """Whether a machine is cordoned."""

    node: str
    cordon: MachineCordonRow | None
    """Null: the machine is not cordoned."""


class MachinePoint(Struct, frozen=True, kw_only=True):
    """Usage of a machine in one interval: means; all null if nothing was measured."""

    at: datetime
    """Beginning of the interval."""
    cpu_cores: float | None
    """Busy cores."""
    memory_bytes: float | None
    """Memory that is not available to new processes."""
    gpu_percent: float | None
    """Utilization, mean over its GPUs."""
    gpu_memory_bytes: float | None
    """Used memory of all GPUs."""


class MachineHistory(Struct, frozen=True, kw_only=True):
    """Usage of a machine over time."""

    node: str
    """Ray's id of the node."""
    step_seconds: int
    """Length of an interval; each holds up to one sample per minute."""
    cpus: int | None
    """As of the newest sample in the range, as for all below; null without one."""
    memory_total_bytes: int | None
    gpus: int | None
    gpu_memory_total_bytes: int | None
    points: list[MachinePoint]
    """Intervals without a break, oldest first."""
