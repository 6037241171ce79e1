"""Shape what travels over the live sockets, in both directions.

These are the protocol: the server encodes and decodes by them, the dashboard's types are generated
from them. What the parts and series of a topic are made of, their readers say; see
:mod:`runs.live.parts`.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from runs.wire import Control
from runs.wire.run_lists import RunRow

TopicName = Annotated[str, Meta(max_length=100)]
"""``run:<name>``, or one of the topics of the deck."""


class Subscribe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="subscribe"):
    """A page wants a topic: its snapshot, then its deltas."""

    topic: TopicName


class Unsubscribe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unsubscribe"):
    """A page wants a topic no more."""

    topic: TopicName


class Resync(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resync"):
    """A page has lost a frame of a topic and wants a snapshot."""

    topic: TopicName


class Visible(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="visible"):
    """A page says whether anybody can see it; a hidden one is told less."""

    visible: bool


class AskClock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="clock"):
    """A page wants to know the server's time, to tell its own clock's difference."""


PageMessage = Subscribe | Unsubscribe | Resync | Visible | AskClock
"""What a page says."""


class SnapshotFrame(Struct, frozen=True, kw_only=True, tag="snapshot"):
    """All of a topic: what a page has shown of it before is replaced."""

    topic: TopicName
    sequence: int
    """Number of this frame; it rises over all topics and processes, with gaps."""
    at: datetime
    committed_at: datetime | None
    """When the newest change in it was committed; null where nobody announced that."""
    parts: dict[str, Raw]
    """Small values by name; the latest wins."""
    series: dict[str, list[Raw]]
    """Rows by the name of their series, oldest first; each has a rising integer `id`."""


class DeltaFrame(Struct, frozen=True, kw_only=True, tag="delta"):
    """What is new in a topic since frame `previous`: whole parts, and further rows."""

    topic: TopicName
    previous: int
    """Number of the topic's frame before it; a page that has another one has lost a frame."""
    sequence: int
    at: datetime
    committed_at: datetime | None
    parts: dict[str, Raw]
    series: dict[str, list[Raw]]


class BeatFrame(Struct, frozen=True, kw_only=True, tag="beat"):
    """The connection lives."""

    at: datetime
    sequences: dict[str, int | None]
    """Number of the last frame sent of each topic, null before its first; empty while frames are
    on their way. A page that has less than that has lost a frame."""


class ClockFrame(Struct, frozen=True, kw_only=True, tag="clock"):
    """The server's time, as soon as it was asked for."""

    at: datetime


class ErrorFrame(Struct, frozen=True, kw_only=True, tag="error"):
    """Why a message of the page was not followed."""

    topic: str
    """As the message had it; empty where it had none."""
    code: Literal[
        "invalid", "unknown_topic", "forbidden", "too_many_topics", "not_found", "not_subscribed"
    ]
    detail: str


PageFrame = SnapshotFrame | DeltaFrame | BeatFrame | ClockFrame | ErrorFrame
"""What a page is told."""


class ControlFrame(Control, frozen=True, kw_only=True, tag="control"):
    """What a run wants of its rollout handlers, whole, at once and at each change."""

    at: datetime


class DeckRun(RunRow, frozen=True, kw_only=True):
    """A run as the live list shows it: with its outlook while it is active."""

    queued: int | UnsetType | None = UNSET
    """Sequences or fragments that wait for a trainer."""
    workers: int | UnsetType | None = UNSET
    observed_at: datetime | UnsetType | None = UNSET
    """Last proof of its fleet's state; null where nobody ought to report."""
    fleet_reason: str | UnsetType = UNSET
    """Why its fleet is as it is, or why nobody can tell."""
    return_mean: float | UnsetType | None = UNSET
    """Of the last 20 training episodes."""
    returns: list[float] | UnsetType = UNSET
    """The same over time, oldest first, at most 40 of them."""
    accepted_per_second: float | UnsetType | None = UNSET
    """Groups, or fragments of a fleet run, that came in lately; null where nobody knows."""
    staleness_p50: float | UnsetType | None = UNSET
    """Of what was served last, in versions behind the policy."""
    measured_at: datetime | UnsetType | None = UNSET
    """As of when these two are."""
