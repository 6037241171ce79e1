"""Shape what the API takes and gives about fleets, besides their own messages."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rolldeck.wire import Desired, StageTiming, WeightsTransfers
from runs.wire import Reason


class EpisodeRow(Struct, frozen=True, kw_only=True):
    """Statistics of the episodes that ended at one worker within one report.

    Returns are undiscounted sums of rewards; lengths are in env steps; the counters at the end
    say where the run stood when the window was stored.
    """

    id: int
    at: datetime
    environment: str
    worker: int
    mode: Literal["train", "eval"]
    seconds: float
    count: int
    return_mean: float
    return_min: float
    return_max: float
    return_p10: float
    return_p50: float
    return_p90: float
    discounted_return_mean: float
    length_mean: float
    length_max: int
    terminated: int
    truncated: int
    aborted: int
    policy_step: int
    env_steps_total: int
    served_steps: int
    recent_return_mean: float | None
    """Mean of the run's last 20 training returns; null before the first."""


class EpisodeMeans(Struct, frozen=True, kw_only=True):
    """Means of episodes that came to an end of their own."""

    total_return: float
    discounted_return: float
    length: float
    """Env steps."""


class TaskEpisodes(Struct, frozen=True, kw_only=True):
    """The episodes of one environment and mode."""

    environment: str
    mode: Literal["train", "eval"]
    count: int
    terminated: int
    truncated: int
    aborted: int
    means: EpisodeMeans
    percentiles: dict[str, float]
    """5, 25, 50, 75 and 95 of the returns that were kept: the last hundred of each report."""
    length_percentiles: dict[str, float]
    """The same of their lengths, in env steps."""


class EpisodeSummary(Struct, frozen=True, kw_only=True):
    """Episodes of the last seconds by environment, and means over environments.

    *Weighted* counts each episode once, *unweighted* each environment; null without episodes.
    """

    seconds: int
    since: datetime | None
    """Where there are too many reports to go back so far: from when on all are counted."""
    tasks: list[TaskEpisodes]
    train_weighted: EpisodeMeans | None
    train_unweighted: EpisodeMeans | None
    eval_weighted: EpisodeMeans | None
    eval_unweighted: EpisodeMeans | None


class Episodes(Struct, frozen=True, kw_only=True):
    """Windows of ended episodes, oldest first."""

    results: list[EpisodeRow]


class SlotState(Struct, frozen=True, kw_only=True):
    """State of one env slot as last reported."""

    slot: int
    state: Literal["starting", "stepping", "waiting", "restarting", "failed", "stopped"]
    pid: int | None
    episodes: int
    restarts: int
    error: str


class WorkerState(Struct, frozen=True, kw_only=True):
    """State of one rollout worker; `unknown` when it has not been heard of for 5 seconds."""

    index: int
    incarnation: str
    state: Literal[
        "starting",
        "running",
        "paused",
        "draining",
        "respawning",
        "failed",
        "stopped",
        "unknown",
    ]
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
    """What takes most of its time, in a sentence; it judges nothing, as a verdict does."""
    slots: list[SlotState]
    shares: dict[str, float]
    """Part of the time, 0 to 1, that each stage took, and each reason to wait."""
    cpu_percent: float | None
    """Of one core, env processes included; null where nobody measured, as in all below."""
    memory_bytes: int | None
    """Resident, env processes included."""
    gpu_percent: float | None
    """Time in which the worker's device computed, for whomever."""
    gpu_memory_bytes: int | None
    """Taken on the worker's device, by whomever."""
    transfers: WeightsTransfers
    is_to_restart: bool = False
    """Somebody wants it replaced, and it is still there."""
    last_log: str = ""
    """The newest line of its log, cut; written by whatever it runs."""
    cordon: Literal["", "requested", "draining", "out", "lifting"] = ""
    """`requested`: somebody wants it kept out, its manager has not said so yet. `out`: it has
    ended and has no successor. `lifting`: it is let in again, its manager has not said so yet."""
    cordoned_at: datetime | None = None
    cordoned_by: str = ""
    cordon_reason: str = ""


class RecordingRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/recordings``: whose next episodes to film."""

    episodes: Annotated[int, Meta(ge=1, le=4)] = 1
    worker: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Null: whichever runs."""
    slot: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Null: whichever works."""
    environment: Annotated[str, Meta(max_length=200)] = ""
    """Spec; empty: whichever the run steps."""
    reason: Reason = ""


class RecordingRow(Struct, frozen=True, kw_only=True):
    """An episode that somebody asked to see."""

    id: str
    state: Literal["requested", "recording", "ready", "failed"]
    reason: str
    """Why it failed."""
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
    """Why it is no video, where it is none."""
    size_bytes: int


class Recordings(Struct, frozen=True, kw_only=True):
    """Recordings of a run, newest first."""

    results: list[RecordingRow]


class FleetLog(Struct, frozen=True, kw_only=True):
    """The end of one log of a fleet: plain text, no escape sequences, no control characters."""

    state: Literal["read", "waiting", "silent"]
    """`read` now; `waiting` for the fleet; `silent`: no manager lives that could read it."""
    note: str
    """What it waits for, or why there is no more; empty if there is nothing to say."""
    worker: int | None
    slot: int | None
    lines: list[str]
    """Oldest first; while the state is not `read`, those of the last time."""
    read_at: datetime | None
    """When the fleet read them; null: never."""
    node: str
    path: str
    """Of the file on that node."""


class FleetState(Struct, frozen=True, kw_only=True):
    """What is wanted of a fleet and what was last seen of it."""

    desired: Desired
    observed: Literal[
        "none",
        "starting",
        "running",
        "paused",
        "draining",
        "drained",
        "stopped",
        "failed",
        "unknown",
    ]
    observed_at: datetime | None = None
    """Last report of any of its managers: what proves its state."""
    age_seconds: float | None = None
    proven_at: datetime | None = None
    """The same while a manager ought to report; null: nobody ought to, so nothing can lapse."""
    launched_at: datetime | None = None
    attempt: int = 0
    """Managers launched so far."""
    reason: str = ""
    env_steps_total: int = 0
    workers: list[WorkerState] = []
