"""Shape the messages between the platform, its fleets, its trainers and its environments.

Both sides import this module, so there is one definition of every message. Binary bodies are
msgpack; an array travels as its dtype, shape and little-endian bytes, so a reader gets a numpy
view without a copy. Nothing here is ever pickled.
"""

import math
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from rolldeck.errands import (
    CordonOrder,
    LogRequest,
    MachineOrder,
    RecordingOrder,
    RestartOrder,
    StacksRequest,
)
from rolldeck.fleet_wire import Count as Count
from rolldeck.fleet_wire import FleetEvent as FleetEvent
from rolldeck.fleet_wire import Name as Name
from rolldeck.fleet_wire import Note as Note
from rolldeck.fleet_wire import SlotReport as SlotReport
from rolldeck.fleet_wire import StageTiming as StageTiming
from rolldeck.fleet_wire import Step as Step
from rolldeck.fleet_wire import WorkerEnding as WorkerEnding
from rolldeck.weights_wire import LargeCount
from rolldeck.weights_wire import TensorSpec as TensorSpec
from rolldeck.weights_wire import WeightsManifest as WeightsManifest
from rolldeck.weights_wire import WeightsTransfers as WeightsTransfers

SCHEMA_VERSION: Final = 1
FRAGMENTS_TYPE: Final = "application/vnd.rolldeck.fragments+msgpack"
GROUPS_TYPE: Final = "application/vnd.rolldeck.groups+msgpack"
BATCH_TYPE: Final = "application/vnd.rolldeck.batch+msgpack"
FOLLOW_TYPE: Final = "application/vnd.rolldeck.following+msgpack"

DTYPES: Final = frozenset(
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
)
# Sizes of the dtypes above, in bytes, so that a server can check lengths before building arrays.
ITEM_BYTES: Final = {name: np.dtype(name).itemsize for name in DTYPES}
_LITTLE: Final = {name: np.dtype(name).newbyteorder("<") for name in DTYPES}


class InvalidMessage(ValueError):
    """A message is not what its type says; the text names the field."""


class Array(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An n-dimensional array: C order, little endian."""

    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, lt=1 << 31)], ...], Meta(max_length=32)]
    data: bytes


class Fragment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`steps` consecutive env steps of one slot; T is `steps`.

    Required arrays:
        obs ``[T, …]`` observations acted upon; action ``[T, …]``;
        reward ``[T]`` float32, what followed the action;
        first ``[T]`` bool, the observation is the first of its episode;
        terminated ``[T]``, truncated ``[T]`` bool, the step ended its episode in that way;
        behavior_logprob ``[T]`` float32, natural log; value ``[T]`` float32, the sampling
        policy's estimate for obs;
        policy_step ``[T]`` int32, step of the version that acted;
        episode_index ``[T]`` int32, position of the step's episode in `episode_ids`;
        next_obs ``[…]``, the observation after the last step (the boundary step's obs, which is
        also step 0 of the slot's next fragment).
        Observations of several parts come as obs.<part>, next_obs.<part>, final_obs.<part>.
    Optional arrays:
        final_obs ``[K, …]`` and final_step ``[K]`` int32: the last observation of each episode
        that ended inside the fragment, and the step at which it ended;
        in_state.<name> ``[…]``: recurrent state before step 0, at its beginning where the step is
        the first of an episode;
        mask ``[T]`` bool, true for real steps: they come first, at least one, and the rest is
        padding, which repeats the last of them with reward 0 and without first, terminated and
        truncated. Without a mask every step is real.
    """

    schema: int = SCHEMA_VERSION
    slot: Annotated[str, Meta(min_length=1, max_length=120)]
    """Env slot and incarnation, unique in the run: ``w0-3@5f2c``."""
    number: Annotated[int, Meta(ge=0)]
    """Counts from 0 for each `slot`, without gaps."""
    contiguous: bool
    """Step 0 follows the last step of fragment `number - 1` of the same slot."""
    environment: Annotated[str, Meta(min_length=1, max_length=200)]
    worker: Annotated[str, Meta(min_length=1, max_length=120)]
    epoch: Annotated[int, Meta(ge=0)]
    version_min: Annotated[int, Meta(ge=-1)]
    version_max: Annotated[int, Meta(ge=-1)]
    steps: Annotated[int, Meta(ge=1, le=65_536)]
    episode_ids: list[Annotated[str, Meta(max_length=64)]]
    arrays: dict[str, Array]


class FragmentPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fragments``; each item is an encoded :class:`Fragment`."""

    schema: int = SCHEMA_VERSION
    fragments: Annotated[list[bytes], Meta(min_length=1, max_length=1024)]


class FragmentReceipt(Struct, frozen=True, kw_only=True):
    """Answer to a push. Dropped ones are counted by reason and must not be sent again."""

    accepted: int
    duplicates: int
    dropped: dict[str, int]
    admission_remaining: int


class Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trajectory group: S sequences, their ΣT tokens one behind the other.

    A field that is nil or left out is absent: null in Atropos' JSON.

    Arrays:
        lengths ``[S]`` int32, tokens of each sequence; S is 1 … 1,024;
        tokens ``[ΣT]``, any integer dtype, int32 by custom; 0 … 2³¹ − 1;
        masks ``[ΣT]``, the token id or -100 (any integer dtype); or bool: true stands for the
        token id, false for -100;
        scores ``[S]``, any float dtype, as all below;
        advantages ``[ΣT]``, or ``[S]`` for one of each sequence;
        ref_logprobs, inference_logprobs ``[ΣT]``, natural log;
        distill_token_ids (integers) and distill_logprobs ``[ΣT, K]``.
    """

    schema: int = SCHEMA_VERSION
    env_id: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    epoch: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    """With `policy_step` the version that sampled the group; nil when nobody said."""
    policy_step: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    lengths: Array
    tokens: Array
    masks: Array
    scores: Array
    advantages: Array | None = None
    ref_logprobs: Array | None = None
    inference_logprobs: Array | None = None
    distill_token_ids: Array | None = None
    distill_logprobs: Array | None = None
    own_lengths: dict[str, Array] = {}
    """``[rows]`` int32 for each field whose rows are not as long as those of `tokens`."""
    json: dict[str, bytes] = {}
    """Every further field as JSON, byte for byte as it was written: messages,
    generation_params, overrides, group_overrides, images, a distillation of varying K, and
    whatever else the environment added."""


class GroupPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/groups``; each item is an encoded :class:`Group`."""

    schema: int = SCHEMA_VERSION
    groups: Annotated[list[bytes], Meta(min_length=1, max_length=1024)]


class GroupsReceipt(Struct, frozen=True, kw_only=True):
    """Answer to a push. Dropped groups are counted by reason and must not be sent again."""

    received: int
    """Groups taken in, `buffered` ones included."""
    buffered: int
    """Groups among them that wait for others to make up their environment's group size."""
    dropped: dict[str, int]
    admission_remaining: int


class BatchHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a trainer must know of a leased batch."""

    id: str
    ordinal: int
    """Counts the run's batches from 1: the served step."""
    fence: int
    """Rises with every new lease of the batch; an ack with an older one is refused."""
    kind: Literal["groups", "fragments"]
    count: int
    """Items in the batch."""
    lease_seconds: float
    epoch: int
    policy_step: int
    """The run's current version when the batch was handed out."""
    item_ids: list[int] = []
    """Of a sampled batch: id of each item, to give it a priority by."""
    importance_weights: list[float] = []
    """Of a sampled batch: how much each item should count in the loss, the largest 1."""
    rank: int = 0
    world_size: int = 1
    """The items are the shard of `rank`; together the `world_size` shards are the batch."""


class BatchAnswer(Struct, frozen=True, kw_only=True):
    """A leased batch: the head, then each item's bytes, as they were stored where possible."""

    schema: int = SCHEMA_VERSION
    batch: BatchHead
    codecs: list[Literal["json", "msgpack"]] = []
    """What each item is: an encoded :class:`Fragment` or :class:`Group`, or Atropos' JSON. Left
    out by older servers, whose groups are all JSON."""
    items: list[bytes]


class FollowHead(Struct, frozen=True, kw_only=True):
    """What a follower must know of the items that come with it."""

    name: str
    kind: Literal["groups", "fragments"]
    count: int
    """Items that came."""
    cursor: str
    """Place of the last of them in the stream; confirm it to get those after it."""
    item_ids: list[int]


class FollowAnswer(Struct, frozen=True, kw_only=True):
    """Items of a run in the order in which they were accepted, for one follower."""

    schema: int = SCHEMA_VERSION
    follower: FollowHead
    codecs: list[Literal["json", "msgpack"]] = []
    """What each item is, as in :class:`BatchAnswer`."""
    items: list[bytes]


Desired = Literal["running", "paused", "draining", "stopped"]


class FleetControl(Struct, frozen=True, kw_only=True):
    """What the platform wants of a fleet: answer of control long-polls and of reports."""

    fingerprint: str
    """Changes whenever anything else here does; send it back as `after`."""
    desired: Desired
    epoch: int
    policy_step: int
    """Version to act with, the newest unless one is pinned; -2 none yet: never generate."""
    admission_remaining: int
    """Items the buffer would still take in, not counting those already started."""
    log_requests: list[LogRequest] = []
    """What people want to read now; each stays here until it is answered or too old."""
    num_workers: int = 0
    """Workers that shall be there; 0 for as many as the configuration says."""
    weights_order: int = 0
    """Rises when people pin a version, let go of it, or want weights taken anew."""
    recordings: list[RecordingOrder] = []
    """Episodes that people want to see; each stays here until it is there or has failed."""
    restarts: list[RestartOrder] = []
    """Workers that people want replaced; each stays here until another incarnation is reported."""
    cordons: list[CordonOrder] = []
    """Workers that people want kept out; each stays here until they let it back in."""
    stacks: list[StacksRequest] = []
    """Workers whose threads people want to see; answered or too old, as `log_requests` are."""
    machines: list[MachineOrder] = []
    """Machines that people want empty of workers, of every run; each stays until it is let in."""


class WorkerReport(Struct, frozen=True, kw_only=True):
    """State of one rollout worker; versions are steps of the current epoch, -2 for none."""

    index: Count
    incarnation: Name
    state: Literal["starting", "running", "paused", "draining", "respawning", "failed", "stopped"]
    reason: Note = ""
    node: Annotated[str, Meta(max_length=200)] = ""
    node_id: Annotated[str, Meta(max_length=64)] = ""
    """As Ray calls its node; empty where there is no cluster."""
    pid: LargeCount | None = None
    restarts: Count = 0
    announced_step: Step = -2
    staged_step: Step = -2
    active_step: Step = -2
    env_steps: LargeCount = 0
    env_steps_per_second: float = 0.0
    fragments_cut: LargeCount = 0
    fragments_sent: LargeCount = 0
    to_send: Count = 0
    outstanding: Count = 0
    """Fragments it may start, is filling or has not delivered: room that it holds."""
    dropped_steps: dict[str, LargeCount] = {}
    stages: dict[str, StageTiming] = {}
    time_use: Note = ""
    """What takes most of its time, in a sentence."""
    last_log: Annotated[str, Meta(max_length=300)] = ""
    """The newest line of its log, cut."""
    is_cordoned: bool = False
    """It is kept out: it drains, or has ended and has no successor."""
    slots: list[SlotReport] = []
    shares: dict[str, float] = {}
    """Part of the time, 0 to 1, that each stage took, and each reason to wait."""
    cpu_percent: float | None = None
    """Of one core, its env processes included; null where nobody measured, as in all below."""
    memory_bytes: LargeCount | None = None
    """Resident, its env processes included."""
    gpu_percent: float | None = None
    """Time in which the worker's device computed, for whomever."""
    gpu_memory_bytes: LargeCount | None = None
    """Taken on the worker's device, by whomever."""
    transfers: WeightsTransfers = WeightsTransfers()


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
    """Env steps of the same episodes."""
    policy_step: Step = -2


class FleetReport(Struct, frozen=True, kw_only=True):
    """Body of ``POST /api/runs/{run}/fleet/report``, about once a second."""

    incarnation: Annotated[str, Meta(min_length=1, max_length=64)]
    """Of the manager; a new one means that it restarted."""
    sequence: LargeCount
    """Rises with every report of an incarnation; a repeated one is not counted twice."""
    state: Literal["starting", "running", "paused", "draining", "drained", "stopped", "failed"]
    reason: Note = ""
    for_good: bool = False
    """It failed, and so would every other fleet of the same configuration."""
    node_id: Annotated[str, Meta(max_length=64)] = ""
    """As Ray calls the manager's own node; empty where there is no cluster."""
    workers: Annotated[list[WorkerReport], Meta(max_length=4096)]
    episodes: Annotated[list[EpisodeWindow], Meta(max_length=4096)] = []
    events: Annotated[list[FleetEvent], Meta(max_length=256)] = []


def encode(message: Struct) -> bytes:
    """Return `message` as msgpack."""
    return msgspec.msgpack.encode(message)


def pack_array(array: NDArray[Any]) -> Array:
    """Return `array` (any supported dtype and layout) as it travels.

    Raises:
        InvalidMessage: If the dtype is not one of :data:`DTYPES`.
    """
    name, little = _travelling(array.dtype)
    return Array(dtype=name, shape=array.shape, data=array.astype(little, copy=False).tobytes())


@lru_cache
def _travelling(dtype: "np.dtype[Any]") -> "tuple[str, np.dtype[Any]]":
    """Return the name of a dtype and its little-endian form."""
    if dtype.name not in DTYPES:
        raise InvalidMessage(f"dtype {dtype} cannot travel; use one of {sorted(DTYPES)}")
    return dtype.name, _LITTLE[dtype.name]


def unpack_array(array: Array) -> NDArray[Any]:
    """Return a read-only numpy view of `array`, shape ``array.shape``.

    Raises:
        InvalidMessage: If the dtype is unknown or the bytes do not fill the shape.
    """
    if array.dtype not in DTYPES:
        raise InvalidMessage(f"unknown dtype {array.dtype!r}")
    expected = math.prod(array.shape) * ITEM_BYTES[array.dtype]
    if len(array.data) != expected:
        raise InvalidMessage(
            f"{len(array.data)} bytes do not fill shape {list(array.shape)} of {array.dtype}"
        )
    try:
        return np.frombuffer(array.data, dtype=_LITTLE[array.dtype]).reshape(array.shape)
    except ValueError as error:  # no bytes, and other sides that no array can have
        raise InvalidMessage(f"shape {list(array.shape)}: {error}") from error
