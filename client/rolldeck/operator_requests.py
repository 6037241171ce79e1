"""Operator requests to a fleet, and the fleet's answers."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct


class LogRequest(Struct, frozen=True, kw_only=True):
    """A request for the end of a log; the answer uses its id."""

    id: str
    worker: int | None
    """Null for the manager."""
    slot: int | None
    """Null for the worker itself, otherwise the env process of the slot."""
    lines: int


class LogLines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/fleet/logs/{request}``: the end of a log, oldest first."""

    lines: Annotated[list[Annotated[str, Meta(max_length=2100)]], Meta(max_length=1000)]
    node: Annotated[str, Meta(max_length=200)] = ""
    path: Annotated[str, Meta(max_length=500)] = ""
    """Path of the file on that node."""
    note: Annotated[str, Meta(max_length=4000)] = ""
    """Reason why no further lines are available."""


class RestartCommand(Struct, frozen=True, kw_only=True):
    """A request to replace one worker by a new one."""

    worker: int
    incarnation: str
    """The incarnation to end; the request is void once another one runs."""
    reason: str = ""


class CordonCommand(Struct, frozen=True, kw_only=True):
    """A request to cordon a worker: it drains, ends, and is not replaced."""

    worker: int
    reason: str = ""


class MachineCommand(Struct, frozen=True, kw_only=True):
    """A request to empty a machine: its workers drain, and no new ones are placed there."""

    node: str
    """Ray's id of the node."""
    host: str = ""
    reason: str = ""


class StacksRequest(Struct, frozen=True, kw_only=True):
    """A request for the stack traces of a worker's threads; answered by its id, like a log."""

    id: str
    worker: int
    incarnation: str
    """The addressed incarnation; another one does not answer."""


RECORDING_TYPE: Final = "application/vnd.rolldeck.recording+msgpack"
MOST_RECORDED_BYTES: Final = 8 * 1024 * 1024
"""Largest recording of one episode, encoded."""


class RecordingCommand(Struct, frozen=True, kw_only=True):
    """A request to record one episode."""

    id: str
    worker: int | None = None
    """Null for any running worker."""
    slot: int | None = None
    """Null for any working slot."""


class RecordedEpisode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The frames of a recording, as video or text."""

    media_type: Literal["video/webm", "text/plain"]
    frames: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    """Number of frames; in text they are separated by form feeds."""
    left_out: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Frames dropped because encoding was too slow or a limit was reached."""
    frames_per_second: Annotated[float, Meta(gt=0, le=1000)]
    width: Annotated[int, Meta(ge=0, le=65_536)] = 0
    height: Annotated[int, Meta(ge=0, le=65_536)] = 0
    note: Annotated[str, Meta(max_length=1000)] = ""
    """Reason why the recording is not a video, if it is text."""


class RecordingUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/runs/{run}/recordings/{recording}``, msgpack: a worker's progress."""

    state: Literal["recording", "ready", "failed"]
    worker: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    slot: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    reason: Annotated[str, Meta(max_length=4000)] = ""
    """Reason of a failure."""
    total_return: float | None = None
    """Sum of the episode's rewards; this and the following fields are set in state `ready`."""
    length: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Length of the episode in env steps."""
    outcome: Literal["", "terminated", "truncated"] = ""
    policy_step: Annotated[int, Meta(ge=-2, le=2**31 - 1)] = -2
    """Policy version at the end of the episode."""
    media: RecordedEpisode | None = None
    content: Annotated[bytes, Meta(max_length=MOST_RECORDED_BYTES)] = b""
