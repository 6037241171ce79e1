"""Schemas of the live sockets' frames, in both directions.

They define the protocol: the server encodes and decodes with them, and the dashboard's types are
generated from them. Apps register the parts and series of each topic with
:mod:`web.live.parts`.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct

from runs.lifecycle.schemas import Control
from web.live.parts import FieldChange

TopicName = Annotated[str, Meta(max_length=100)]
"""``run:<name>``, or a topic of the deployment."""


class Subscribe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="subscribe"):
    """Subscribe to a topic: its snapshot, then its deltas."""

    topic: TopicName


class Unsubscribe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unsubscribe"):
    """Unsubscribe from a topic."""

    topic: TopicName


class Resync(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resync"):
    """Request a new snapshot after a lost frame."""

    topic: TopicName


class Visible(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="visible"):
    """Report whether the page is visible; hidden pages receive fewer frames."""

    visible: bool


PageMessage = Subscribe | Unsubscribe | Resync | Visible
"""Message from a page."""


class SnapshotFrame(Struct, frozen=True, kw_only=True, tag="snapshot"):
    """Complete state of a topic; it replaces everything the page has shown of it."""

    topic: TopicName
    sequence: int
    """Number of this frame; numbers rise across all topics and processes, with gaps."""
    at: datetime
    committed_at: datetime | None
    """Commit time of the newest change in the frame; null if not announced."""
    parts: dict[str, Raw]
    """Small values by name; the latest wins."""
    series: dict[str, list[Raw]]
    """Rows by the name of their series, oldest first; each has a rising integer `id`."""


class DeltaFrame(Struct, frozen=True, kw_only=True, tag="delta"):
    """Changes of a topic since frame `previous`: parts, fields of parts, and further rows."""

    topic: TopicName
    previous: int
    """Number of the topic's previous frame; if the page has another, it has lost a frame."""
    sequence: int
    at: datetime
    committed_at: datetime | None
    parts: dict[str, Raw]
    """Whole parts."""
    changes: dict[str, list[FieldChange]]
    """For other parts, the paths of changed fields in keys and indexes, with their new values."""
    series: dict[str, list[Raw]]


class BeatFrame(Struct, frozen=True, kw_only=True, tag="beat"):
    """Heartbeat of the connection."""

    at: datetime
    sequences: dict[str, int | None]
    """Number of the last frame sent per topic, null before its first; empty while frames are in
    transit. A page with a lower number has lost a frame."""


class ErrorFrame(Struct, frozen=True, kw_only=True, tag="error"):
    """Rejection of a page's message."""

    topic: str
    """Topic of the message; empty if it had none."""
    code: str
    """Code as in an HTTP response."""
    detail: str


PageFrame = SnapshotFrame | DeltaFrame | BeatFrame | ErrorFrame
"""Frame sent to a page."""


class ControlFrame(Control, frozen=True, kw_only=True, tag="control"):
    """Control state of a run for its rollout handlers; sent whole, at once and on each change."""

    at: datetime
