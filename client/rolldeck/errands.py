"""Shape what people ask of a fleet through the platform, and what the fleet answers."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct


class LogRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants to read the end of a log; answered by its id."""

    id: str
    worker: int | None
    """Null: the manager."""
    slot: int | None
    """Null: the worker itself, else the env process that holds the slot."""
    lines: int


class LogLines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/logs/{request}``: the end of a log, oldest first."""

    lines: Annotated[list[Annotated[str, Meta(max_length=2100)]], Meta(max_length=1000)]
    node: Annotated[str, Meta(max_length=200)] = ""
    path: Annotated[str, Meta(max_length=500)] = ""
    """Of the file on that node."""
    note: Annotated[str, Meta(max_length=4000)] = ""
    """Why there is no more."""


class RestartOrder(Struct, frozen=True, kw_only=True):
    """Somebody wants one worker replaced by a new one."""

    worker: int
    incarnation: str
    """The one that shall end; nothing is to be done once another one is there."""
    reason: str = ""


class CordonOrder(Struct, frozen=True, kw_only=True):
    """Somebody wants one worker kept out: it drains, ends, and nobody takes its place."""

    worker: int
    reason: str = ""


class MachineOrder(Struct, frozen=True, kw_only=True):
    """Somebody wants a machine of the cluster empty: whoever is there drains, nobody comes."""

    node: str
    """As Ray calls it."""
    host: str = ""
    reason: str = ""


class StacksRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants to see what a worker's threads are at; answered as a log is, by its id."""

    id: str
    worker: int
    incarnation: str
    """The one that is meant; another one does not answer for it."""


RECORDING_TYPE: Final = "application/vnd.rolldeck.recording+msgpack"
MOST_RECORDED_BYTES: Final = 8 * 1024 * 1024
"""Largest recording of one episode, encoded."""


class RecordingOrder(Struct, frozen=True, kw_only=True):
    """Somebody wants to see one episode."""

    id: str
    worker: int | None = None
    """Null: whichever runs."""
    slot: int | None = None
    """Null: whichever works."""


class Filmed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pictures or the text of a recording."""

    media_type: Literal["video/webm", "text/plain"]
    frames: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    """In a text, parts between form feeds."""
    left_out: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Frames that came too fast to encode, or after the limits were reached."""
    frames_per_second: Annotated[float, Meta(gt=0, le=1000)]
    width: Annotated[int, Meta(ge=0, le=65_536)] = 0
    height: Annotated[int, Meta(ge=0, le=65_536)] = 0
    note: Annotated[str, Meta(max_length=1000)] = ""
    """Why it is no video, where it is none."""


class RecordingUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/runs/{run}/recordings/{recording}``, msgpack: how far a worker is."""

    state: Literal["recording", "ready", "failed"]
    worker: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    slot: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    reason: Annotated[str, Meta(max_length=4000)] = ""
    """Why it failed."""
    total_return: float | None = None
    """Sum of the rewards of the episode; this and the rest when it is ready."""
    length: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """Env steps."""
    outcome: Literal["", "terminated", "truncated"] = ""
    policy_step: Annotated[int, Meta(ge=-2, le=2**31 - 1)] = -2
    """Version that acted when the episode ended."""
    filmed: Filmed | None = None
    content: Annotated[bytes, Meta(max_length=MOST_RECORDED_BYTES)] = b""
