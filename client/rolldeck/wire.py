"""Messages between the platform, its fleets, its trainers and its environments.

Both sides import this module, so every message has a single definition. Binary bodies are msgpack;
an array is sent as its dtype, shape and little-endian bytes, so a reader gets a numpy view without
a copy. Nothing is pickled.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from struct import pack
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from rolldeck.errors import InvalidMessageError
from rolldeck.fleet_wire import Count as Count
from rolldeck.fleet_wire import EpisodeWindow as EpisodeWindow
from rolldeck.fleet_wire import FleetEvent as FleetEvent
from rolldeck.fleet_wire import InfoWindow as InfoWindow
from rolldeck.fleet_wire import LargeCount
from rolldeck.fleet_wire import MachineUsage as MachineUsage
from rolldeck.fleet_wire import Name as Name
from rolldeck.fleet_wire import Note as Note
from rolldeck.fleet_wire import ReplicaReport as ReplicaReport
from rolldeck.fleet_wire import ReportedFleetState as ReportedFleetState
from rolldeck.fleet_wire import ReportedSlotState as ReportedSlotState
from rolldeck.fleet_wire import ReportedWorkerState as ReportedWorkerState
from rolldeck.fleet_wire import SlotReport as SlotReport
from rolldeck.fleet_wire import StageTiming as StageTiming
from rolldeck.fleet_wire import Step as Step
from rolldeck.fleet_wire import TensorSpec as TensorSpec
from rolldeck.fleet_wire import WeightsManifest as WeightsManifest
from rolldeck.fleet_wire import WeightsTransfers as WeightsTransfers
from rolldeck.fleet_wire import WorkerEnding as WorkerEnding
from rolldeck.operator_requests import (
    CordonCommand,
    LogRequest,
    MachineCommand,
    RecordingCommand,
    RestartCommand,
    StacksRequest,
)
from rolldeck.structs import prepare_structs

SCHEMA_VERSION: Final = 1
FRAGMENTS_TYPE: Final = "application/vnd.rolldeck.fragments+msgpack"
GROUPS_TYPE: Final = "application/vnd.rolldeck.groups+msgpack"
BATCH_TYPE: Final = "application/vnd.rolldeck.batch+msgpack"
FOLLOW_TYPE: Final = "application/vnd.rolldeck.following+msgpack"

INFO: Final = "info."
"""Prefix of the arrays with values of `info`."""
DTYPES: Final = frozenset(
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
)
# Sizes of these dtypes in bytes, so that a server can check lengths before building arrays.
ITEM_BYTES: Final = {name: np.dtype(name).itemsize for name in DTYPES}
_LITTLE: Final = {name: np.dtype(name).newbyteorder("<") for name in DTYPES}


class Array(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An n-dimensional array in C order, little endian."""

    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, lt=1 << 31)], ...], Meta(max_length=32)]
    data: bytes


class Fragment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`steps` consecutive env steps of one slot; T is `steps`.

    Required arrays:
        obs ``[T, …]`` observations before each action; action ``[T, …]``;
        reward ``[T]`` float32, reward after the action;
        first ``[T]`` bool, the observation is the first of its episode;
        terminated ``[T]``, truncated ``[T]`` bool, the step ended its episode in that way;
        behavior_logprob ``[T]`` float32, natural log; value ``[T]`` float32, the sampling
        policy's estimate for obs;
        policy_step ``[T]`` int32, step of the version that acted;
        episode_index ``[T]`` int32, position of the step's episode in `episode_ids`;
        next_obs ``[…]``, the observation after the last step (the boundary step's obs, which is
        also step 0 of the slot's next fragment).
        Composed observations are sent as obs.<part>, next_obs.<part>, final_obs.<part>.
    Optional arrays:
        final_obs ``[K, …]`` and final_step ``[K]`` int32: the last observation of each episode
        that ended inside the fragment, and the step at which it ended;
        in_state.<name> ``[…]``: recurrent state before step 0; the initial state if the step is
        the first of an episode;
        info.<key> ``[T]`` float32, number of `info` that the environment returned with the step's
        reward, NaN where it returned none and 0 in padding; a dot in the key leads into a dict;
        mask ``[T]`` bool, true for real steps: they come first, at least one, and the rest is
        padding, which repeats the last real step with reward 0 and without first, terminated and
        truncated. Without a mask every step is real.
    """

    schema: int = SCHEMA_VERSION
    slot: Annotated[str, Meta(min_length=1, max_length=120)]
    """Env slot and incarnation, unique in the run: ``w0-3@5f2c``."""
    number: Annotated[int, Meta(ge=0)]
    """Position in the `slot`, from 0, without gaps."""
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
    """Body of ``POST /api/v1/runs/{run}/fragments``; each item is an encoded :class:`Fragment`."""

    schema: int = SCHEMA_VERSION
    fragments: Annotated[list[bytes], Meta(min_length=1, max_length=1024)]


class FragmentReceipt(Struct, frozen=True, kw_only=True):
    """Response to a push. Dropped fragments are counted by reason and must not be sent again."""

    accepted: int
    duplicates: int
    dropped: dict[str, int]
    admission_remaining: int


class Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trajectory group: S sequences with ΣT concatenated tokens.

    A field that is nil or left out is absent, which is null in Atropos' JSON.

    Arrays:
        lengths ``[S]`` int32, tokens of each sequence; S is 1 … 1,024;
        tokens ``[ΣT]``, any integer dtype, usually int32; 0 … 2³¹ − 1;
        masks ``[ΣT]``, the token id or -100 (any integer dtype); or bool: true stands for the
        token id, false for -100;
        scores ``[S]``, any float dtype, as for all arrays below;
        advantages ``[ΣT]``, or ``[S]`` for one per sequence;
        ref_logprobs, inference_logprobs ``[ΣT]``, natural log;
        distill_token_ids (integers) and distill_logprobs ``[ΣT, K]``.
    """

    schema: int = SCHEMA_VERSION
    env_id: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    epoch: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    """With `policy_step`, the version that sampled the group; nil if unknown."""
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
    """``[rows]`` int32 for each field whose row lengths differ from those of `tokens`."""
    json: dict[str, bytes] = {}
    """All other fields as JSON, byte for byte as written: messages, generation_params, overrides,
    group_overrides, images, a distillation of varying K, and fields added by the environment."""


class GroupPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/groups``; each item is an encoded :class:`Group`."""

    schema: int = SCHEMA_VERSION
    groups: Annotated[list[bytes], Meta(min_length=1, max_length=1024)]
    lesson: Annotated[str, Meta(max_length=64)] = ""
    """Lesson whose leased problems the groups answer; empty for groups of other producers."""
    problems: Annotated[list[Annotated[int, Meta(ge=0, lt=1 << 53)]], Meta(max_length=1024)] = []
    """Number of the problem of each group, without repetitions; empty without a lesson."""


class GroupsReceipt(Struct, frozen=True, kw_only=True):
    """Response to a push. Dropped groups are counted by reason and must not be sent again."""

    received: int
    """Accepted groups, including `buffered` ones."""
    buffered: int
    """Accepted groups that wait for others to complete their environment's group size."""
    dropped: dict[str, int]
    admission_remaining: int


class BatchHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Description of a leased batch for its trainer."""

    id: str
    ordinal: int
    """Number of the batch in its run, from 1: the served step."""
    fence: int
    """Rises with every new lease of the batch; an ack with an older fence is rejected."""
    kind: Literal["groups", "fragments"]
    count: int
    lease_seconds: float
    epoch: int
    policy_step: int
    """The run's current version at the time of the lease."""
    item_ids: list[int] = []
    """For a sampled batch: id of each item, for priority updates."""
    importance_weights: list[float] = []
    """For a sampled batch: weight of each item in the loss, with a maximum of 1."""
    rank: int = 0
    world_size: int = 1
    """The items are the shard of `rank`; the `world_size` shards together are the batch."""


class BatchAnswer(Struct, frozen=True, kw_only=True):
    """A leased batch: the head, then each item's bytes, unconverted if possible."""

    schema: int = SCHEMA_VERSION
    batch: BatchHead
    codecs: list[Literal["json", "msgpack"]] = []
    """Codec of each item: an encoded :class:`Fragment` or :class:`Group`, or Atropos' JSON. Older
    servers omit it and send only JSON groups."""
    items: list[bytes]


class FollowHead(Struct, frozen=True, kw_only=True):
    """Description of the items that a follower receives."""

    name: str
    kind: Literal["groups", "fragments"]
    count: int
    cursor: str
    """Position of the last item in the stream; acknowledge it to get the following items."""
    item_ids: list[int]


class FollowAnswer(Struct, frozen=True, kw_only=True):
    """Items of a run in order of acceptance, for one follower."""

    schema: int = SCHEMA_VERSION
    follower: FollowHead
    codecs: list[Literal["json", "msgpack"]] = []
    """Codec of each item, as in :class:`BatchAnswer`."""
    items: list[bytes]


Desired = Literal["running", "paused", "draining", "stopped"]


class FleetControl(Struct, frozen=True, kw_only=True):
    """Pending commands of a fleet: response to control long-polls and to reports."""

    fingerprint: str
    """Changes with every other field; send it back as `after`."""
    desired: Desired
    epoch: int
    policy_step: int
    """Version to act with, the newest unless one is pinned; -2: none yet, do not generate."""
    admission_remaining: int
    """Items that the buffer still accepts, without those already started."""
    log_requests: list[LogRequest] = []
    """Pending log requests; each stays until it is answered or has expired."""
    num_workers: int = 0
    """Wanted number of workers; 0 for the configured number."""
    weights_command: int = 0
    """Rises when a person pins or unpins a version, or requests a weight sync."""
    recordings: list[RecordingCommand] = []
    """Pending recordings; each stays until it is ready or has failed."""
    restarts: list[RestartCommand] = []
    """Workers to replace; each stays until another incarnation is reported."""
    cordons: list[CordonCommand] = []
    """Cordoned workers; each stays until it is uncordoned."""
    stacks: list[StacksRequest] = []
    """Pending requests for stack traces; each stays until it is answered or has expired."""
    machines: list[MachineCommand] = []
    """Cordoned machines, to be emptied of all runs' workers; each stays until it is uncordoned."""


class WorkerReport(Struct, frozen=True, kw_only=True):
    """State of one rollout worker; versions are steps of the current epoch, -2 for none."""

    index: Count
    incarnation: Name
    state: ReportedWorkerState
    reason: Note = ""
    node: Annotated[str, Meta(max_length=200)] = ""
    node_id: Annotated[str, Meta(max_length=64)] = ""
    """Ray's id of its node; empty without a cluster."""
    pid: LargeCount | None = None
    restarts: Count = 0
    announced_step: Step = -2
    staged_step: Step = -2
    active_step: Step = -2
    env_steps: LargeCount = 0
    env_steps_per_second: float = 0.0
    """Mean of the last minute, or since the worker's state changed; episodes of language runs."""
    fragments_cut: LargeCount = 0
    fragments_sent: LargeCount = 0
    to_send: Count = 0
    outstanding: Count = 0
    """Fragments permitted, in progress or undelivered, which reserve room in the buffer."""
    dropped_steps: dict[str, LargeCount] = {}
    stages: dict[str, StageTiming] = {}
    time_use: Note = ""
    """The dominant use of its time, in a sentence."""
    last_log: Annotated[str, Meta(max_length=300)] = ""
    """The newest line of its log, truncated."""
    is_cordoned: bool = False
    """Whether it is cordoned: it drains, or has ended without a successor."""
    slots: list[SlotReport] = []
    shares: dict[str, float] = {}
    """Share of the time, 0 to 1, by stage and by reason to wait."""
    cpu_percent: float | None = None
    """Percent of one core, including env processes; null if not measured, as for all below."""
    memory_bytes: LargeCount | None = None
    """Resident memory, including env processes."""
    gpu_percent: float | None = None
    """Utilization of the worker's device by all processes."""
    gpu_memory_bytes: LargeCount | None = None
    """Used memory of the worker's device by all processes."""
    machine: MachineUsage | None = None
    """Usage of its machine; null if another worker of the machine reports it."""
    transfers: WeightsTransfers = WeightsTransfers()
    unanswered_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """Time for which its inference server has answered no request; 0 after an answer."""
    replicas: Annotated[list[ReplicaReport], Meta(max_length=256)] = []
    """Replicas of its inference server; empty if it generates itself."""


class FleetReport(Struct, frozen=True, kw_only=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/report``, about once a second."""

    incarnation: Annotated[str, Meta(min_length=1, max_length=64)]
    """Incarnation of the manager; a new one indicates a restart."""
    sequence: LargeCount
    """Rises with every report of an incarnation; repeated reports are ignored."""
    state: ReportedFleetState
    reason: Note = ""
    is_final: bool = False
    """Whether the failure is permanent: any fleet of this configuration would fail."""
    node_id: Annotated[str, Meta(max_length=64)] = ""
    """Ray's id of the manager's node; empty without a cluster."""
    workers: Annotated[list[WorkerReport], Meta(max_length=4096)]
    episodes: Annotated[list[EpisodeWindow], Meta(max_length=4096)] = []
    info: InfoWindow = InfoWindow()
    events: Annotated[list[FleetEvent], Meta(max_length=256)] = []


def encode(message: Struct) -> bytes:
    """Encode `message` as msgpack."""
    return msgspec.msgpack.encode(message)


def encode_push(fragments: Sequence[bytes]) -> bytes:
    """Return an encoded :class:`FragmentPush` of encoded fragments, with one copy of their bytes.

    Fragments are msgpack binaries: 0xC6, the length in four bytes, the bytes.
    """
    # Encoding an empty list of fragments gives all bytes before the length of the list.
    head = encode(FragmentPush(fragments=[]))[:-1]
    parts = [head, b"\xdd", pack(">I", len(fragments))]
    for fragment in fragments:
        parts += [b"\xc6" + pack(">I", len(fragment)), fragment]
    return b"".join(parts)


def pack_array(array: NDArray[Any]) -> Array:
    """Convert `array` (any supported dtype and layout) to a message.

    Raises:
        InvalidMessageError: If the dtype is not one of :data:`DTYPES`.
    """
    name, little = _encodable(array.dtype)
    return Array(dtype=name, shape=array.shape, data=array.astype(little, copy=False).tobytes())


@lru_cache
def _encodable(dtype: "np.dtype[Any]") -> "tuple[str, np.dtype[Any]]":
    """Return the name of a dtype and its little-endian form."""
    if dtype.name not in DTYPES:
        raise InvalidMessageError(f"dtype {dtype} is not supported; use one of {sorted(DTYPES)}")
    return dtype.name, _LITTLE[dtype.name]


def unpack_array(array: Array) -> NDArray[Any]:
    """Return a read-only numpy view of `array`, shape ``array.shape``.

    Raises:
        InvalidMessageError: If the dtype is unknown or the bytes do not match the shape.
    """
    if array.dtype not in DTYPES:
        raise InvalidMessageError(f"unknown dtype {array.dtype!r}")
    expected = math.prod(array.shape) * ITEM_BYTES[array.dtype]
    if len(array.data) != expected:
        raise InvalidMessageError(
            f"{len(array.data)} bytes do not match shape {list(array.shape)} of {array.dtype}"
        )
    try:
        return np.frombuffer(array.data, dtype=_LITTLE[array.dtype]).reshape(array.shape)
    except ValueError as error:  # no bytes, and dimensions too large for an array
        raise InvalidMessageError(f"shape {list(array.shape)}: {error}") from error


prepare_structs()
