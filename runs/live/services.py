"""The hub of live pages, and its topics.

A topic is read completely, or only in the parts that a notice named. A part that fails is logged
and keeps its last value, so that it does not break the page.

One task per watched topic reads the database on each change notice, and every two seconds without
one. It builds each frame once and puts it into the bounded queue of every socket. A slow socket
loses deltas and gets a snapshot once its queue has room.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from channels.db import database_sync_to_async
from django.db import connection, transaction
from msgspec import Raw

from runs.lifecycle.models import Run
from runs.lifecycle.rules import DESIRED, RunStatus
from runs.lifecycle.schemas import Control
from runs.live.rules import ME, frame_topic, rule_of
from runs.live.schemas import ControlFrame, DeltaFrame, SnapshotFrame
from web.live import parts, wakeups
from web.live.announcements import ChangeNotice
from web.live.parts import WINDOW_ROWS, ChangedPart, Topic
from web.live.websocket_protocol import Socket
from web.snapshots import snapshot

logger = logging.getLogger(__name__)


# Read the topics of live pages from the database.

RUN_PREFIX: Final = "run:"
CONTROL_PREFIX: Final = "control:"
# Parts still sent to hidden tabs.
HIDDEN_PARTS: Final = frozenset({"run", "alerts", "session", "notice"})
HIDDEN_SERIES: Final = frozenset({"events"})
# Placeholder for a part's name: the announced change may be in any part.
ANY: Final = ""


@dataclass(slots=True)
class Change:
    """Result of one read: new encoded parts and rows, and the number of its frame."""

    sequence: int
    parts: dict[str, ChangedPart] = field(default_factory=dict)
    series: dict[str, list[bytes]] = field(default_factory=dict)
    commits: Mapping[str, float] = field(default_factory=dict)
    """Commit times of announced changes by part or series; :data:`ANY` for all of them."""

    @property
    def committed_at(self) -> datetime | None:
        """Commit time of the newest change; None for unannounced changes."""
        known = [
            self.commits[name] for name in (*self.parts, *self.series, ANY) if name in self.commits
        ]
        return datetime.fromtimestamp(max(known), UTC) if known else None

    def for_hidden(self) -> "Change | None":
        """Return the subset for hidden tabs, or None."""
        kept = Change(
            sequence=self.sequence,
            commits=self.commits,
            parts={name: part for name, part in self.parts.items() if name in HIDDEN_PARTS},
            series={name: rows for name, rows in self.series.items() if name in HIDDEN_SERIES},
        )
        return kept if kept.parts or kept.series else None


class RunTopic:
    """Topic of one run's page."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.run_id: int | None = None
        self.sequence = 0
        self.committed_at: datetime | None = None
        """Commit time of the newest shown change, if known."""
        self._shown = Topic()
        self._read_at: dict[str, float] = {}
        self.late: set[str] = set()
        """Expensive parts: read right after the first snapshot, not before."""

    def poll(self, names: Collection[str] | None) -> Change | None:
        """Read the parts and series in `names` (None: all) and return the changes.

        Runs in a thread; the hub never reads a topic twice concurrently.
        """
        if names is not None and not names:
            return None
        if names is None:
            # After a reset, there is a new run at the address, with an empty page.
            run = Run.objects.only("pk").at(self.name.partition(":")[2])
            if run is None and self.run_id is not None:
                return self._deleted()
            if run is not None and run.pk != self.run_id:
                self.run_id, self._shown, self._read_at = run.pk, Topic(), {}
        if self.run_id is None:
            return None
        found = Change(sequence=0)
        found.parts = self._shown.changed_parts(self._read_parts(self.run_id, names))
        found.series = self._read_series(self.run_id, names)
        if not found.parts and not found.series:
            return None
        self.sequence = found.sequence = next_sequence()
        return found

    def _deleted(self) -> Change:
        """Return that the run does not exist any more; nothing is read from now on."""
        self.run_id = None
        self.sequence = next_sequence()
        return Change(sequence=self.sequence, parts=self._shown.changed_parts({"run": None}))

    def _read_parts(self, run_id: int, names: Collection[str] | None) -> dict[str, Any]:
        """Read the parts of a page; those without a pace are of one moment."""
        asked = [name for name in parts.PARTS if names is None or name in names]
        with snapshot():
            read = self._read_each(run_id, [name for name in asked if name not in parts.PACES])
        # These may read files or other services, for which no transaction stays open.
        return read | self._read_each(run_id, [name for name in asked if name in parts.PACES])

    def _read_each(self, run_id: int, names: Collection[str]) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name in names:
            if self._is_due(name):
                try:
                    # A failed query ends a transaction; this limits it to its part.
                    with transaction.atomic():
                        read[name] = parts.PARTS[name](run_id)
                except Exception:
                    logger.exception("part %s of topic %s not read", name, self.name)
        return read

    def _is_due(self, name: str) -> bool:
        """Return whether a part may be read again, and if so record the time."""
        if not (pace := parts.PACES.get(name)):
            return True
        now = time.monotonic()
        if name not in self._read_at:
            self._read_at[name] = now - pace
            self.late.add(name)
            return False
        if now - self._read_at[name] < pace:
            return False
        self._read_at[name] = now
        return True

    def _read_series(self, run_id: int, names: Collection[str] | None) -> dict[str, list[bytes]]:
        fresh: dict[str, list[bytes]] = {}
        for name, reader in parts.SERIES.items():
            if names is None or name in names:
                try:
                    rows = reader(run_id, self._shown.after(name), WINDOW_ROWS)
                except Exception:
                    logger.exception("series %s of topic %s not read", name, self.name)
                    continue
                if new := self._shown.new_rows(name, rows):
                    fresh[name] = new
        return fresh

    def snapshot(self, *, at: datetime) -> str:
        """Return the complete state as one frame."""
        frame = SnapshotFrame(
            topic=frame_topic(self.name),
            sequence=self.sequence,
            at=at,
            committed_at=_no_later(self.committed_at, at),
            parts={name: Raw(text) for name, text in self._shown.parts.items()},
            series=_raw_series(self._shown.window()),
        )
        return msgspec.json.encode(frame).decode()

    def delta(self, change: Change, *, previous: int, at: datetime) -> str:
        """Return the changes as one frame that follows frame `previous`."""
        changed = change.parts.items()
        frame = DeltaFrame(
            topic=frame_topic(self.name),
            previous=previous,
            sequence=change.sequence,
            at=at,
            committed_at=_no_later(change.committed_at, at),
            parts={name: Raw(part.text) for name, part in changed if part.changes is None},
            changes={name: part.changes for name, part in changed if part.changes is not None},
            series=_raw_series(change.series),
        )
        return msgspec.json.encode(frame).decode()


class GlobalTopic(RunTopic):
    """Topic of the deployment: the list of runs, the alerts, the machines."""

    def poll(self, names: Collection[str] | None) -> Change | None:
        """Read all parts and return the changes."""
        if names is not None and not names:
            return None
        read: dict[str, Any] = {}
        for name, reader in self._readers().items():
            try:
                read[name] = reader()
            except Exception:
                logger.exception("deployment part %s not read", name)
        changed = self._shown.changed_parts(read)
        if not changed:
            return None
        self.sequence = next_sequence()
        return Change(sequence=self.sequence, parts=changed)

    def _readers(self) -> dict[str, Callable[[], Any]]:
        return parts.GLOBAL_PARTS.get(self.name, {})


class OwnTopic(GlobalTopic):
    """Topic of one person: the session and the notice."""

    def _readers(self) -> dict[str, Callable[[], Any]]:
        username = self.name.removeprefix(f"{ME}:user:")
        return {name: partial(read, username) for name, read in parts.OWN_PARTS.items()}


class ControlTopic(RunTopic):
    """Control state of one run, for rollout handlers."""

    def _read_parts(self, run_id: int, names: Collection[str] | None) -> dict[str, Any]:  # noqa: ARG002
        control = control_of(run_id)
        return {} if control is None else {"control": control}

    def _read_series(self, run_id: int, names: Collection[str] | None) -> dict[str, list[bytes]]:  # noqa: ARG002
        return {}

    def snapshot(self, *, at: datetime) -> str:
        """Return the control frame."""
        control = msgspec.json.decode(self._shown.parts["control"], type=Control)
        frame = ControlFrame(**msgspec.structs.asdict(control), at=at)
        return msgspec.json.encode(frame).decode()

    def delta(self, change: Change, *, previous: int, at: datetime) -> str:  # noqa: ARG002
        """Return the control frame, which is always complete."""
        return self.snapshot(at=at)


def control_of(run_id: int) -> Control | None:
    """Return the control state of a run, or None if it does not exist."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    read_queue = parts.PARTS.get("queue")
    queue = read_queue(run_id) if read_queue else None
    return Control(
        desired=DESIRED[RunStatus(run.status)],
        queue_size=queue.queued if queue else 0,
        threshold=queue.threshold if queue else run.off_policy_tolerance * (run.batch_size or 0),
        policy_step=run.policy_step,
        epoch=run.epoch,
    )


def topic_named(name: str) -> RunTopic:
    """Return a new topic without state."""
    if rule_of(name) is not None:
        return OwnTopic(name) if name.startswith(f"{ME}:") else GlobalTopic(name)
    return ControlTopic(name) if name.startswith(CONTROL_PREFIX) else RunTopic(name)


def _no_later(committed_at: datetime | None, at: datetime) -> datetime | None:
    """Cap commit times at the present, because the clocks of machines differ."""
    return None if committed_at is None else min(committed_at, at)


def _raw_series(series: Mapping[str, list[bytes]]) -> dict[str, list[Raw]]:
    return {name: [Raw(row) for row in rows] for name, rows in series.items()}


def next_sequence() -> int:
    """Return the next frame number, which rises over all processes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('runs_live_sequence')")
        return int(cursor.fetchone()[0])


# Fan out live topics to the sockets of this process.

# At most four frames per second and topic.
FRAME_SECONDS: Final = 0.25
# Polling keeps pages current without Redis.
POLL_SECONDS: Final = 2.0
# One change often announces several parts; this delay merges them into one frame.
GATHER_SECONDS: Final = 0.02


class Watched:
    """A topic with its watchers and pending changes."""

    def __init__(self, topic: RunTopic) -> None:
        self.topic = topic
        self.rule = rule_of(topic.name)
        self.sockets: set[Socket] = set()
        self.changed = asyncio.Event()
        self.names: set[str] = set()
        self.commits: dict[str, float] = {}
        self.look_at_all = True
        self.task: asyncio.Task[None] | None = None

    def mark_changed(self, names: set[str] | None, committed_at: float | None = None) -> None:
        """Record the parts to read (None: all) and their commit time, and wake the task."""
        if names is None:
            self.look_at_all = True
        else:
            self.names |= names
        if committed_at is not None:
            self.commits.update(dict.fromkeys(names or {ANY}, committed_at))
        self.changed.set()

    def listens_to(self, notice: ChangeNotice) -> bool:
        """Return whether a notice concerns a deployment topic."""
        keys = self.rule.listens_to if self.rule else frozenset()
        return keys is None or not keys.isdisjoint(notice.parts)

    @property
    def is_asleep(self) -> bool:
        """Whether reading can be skipped: all watching pages are hidden and have a snapshot."""
        if self.rule is None or not self.rule.is_visible_only:
            return False
        key = self.topic.name
        return not any(one.visible or one.sequences.get(key) is None for one in self.sockets)

    def pop_names(self) -> tuple[set[str] | None, dict[str, float]]:
        """Return and clear the parts to read and their commit times."""
        names, commits = None if self.look_at_all else self.names, self.commits
        self.look_at_all, self.names, self.commits = False, set(), {}
        return names, commits


class Hub:
    """Live pages of one event loop."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, Watched] = {}
        self._now = now
        self._subscriber = wakeups.subscriber()

    @property
    def is_watched(self) -> bool:
        """Whether any page is connected."""
        return bool(self._watched)

    def subscribe(self, socket: Socket, name: str) -> None:
        """Send `socket` a snapshot of the topic, then its deltas."""
        if not self._watched:
            self._subscriber.add(self._on_notice)
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = Watched(topic_named(name))
            watched.task = self._loop.create_task(self._maintain(watched), name=f"live {name}")
        watched.sockets.add(socket)
        self.resync(socket, name)

    def resync(self, socket: Socket, name: str) -> None:
        """Send `socket` a new snapshot of a topic that it watches."""
        watched = self._watched.get(name)
        if watched is not None and socket in watched.sockets:
            socket.sequences[name] = None
            watched.mark_changed(set())

    def unsubscribe(self, socket: Socket, name: str) -> None:
        """Stop sending the topic to `socket`; topics without watchers are not read."""
        socket.sequences.pop(name, None)
        watched = self._watched.get(name)
        if watched is None:
            return
        watched.sockets.discard(socket)
        if not watched.sockets:
            del self._watched[name]
            if watched.task is not None:
                watched.task.cancel()
        if not self._watched:
            self._subscriber.remove(self._on_notice)

    def leave(self, socket: Socket) -> None:
        """Remove a closed socket."""
        for name in list(socket.sequences):
            self.unsubscribe(socket, name)

    def show(self, socket: Socket, *, visible: bool) -> None:
        """Record whether the page is visible; a page that becomes visible gets what it missed."""
        came_back = visible and not socket.visible
        socket.visible = visible
        if came_back:
            for name in list(socket.sequences):
                self.resync(socket, name)

    def _on_notice(self, notice: ChangeNotice | None) -> None:
        # Called in the subscriber's thread; the loop may have closed in between.
        try:
            self._loop.call_soon_threadsafe(self._on_change_notice, notice)
        except RuntimeError:
            self._subscriber.remove(self._on_notice)

    def _on_change_notice(self, notice: ChangeNotice | None) -> None:
        for watched in self._watched.values():
            if notice is None or watched.listens_to(notice):
                watched.mark_changed(None, notice.committed_at if notice else None)
            elif watched.topic.run_id == notice.run:
                watched.mark_changed(set(notice.parts), notice.committed_at)

    async def _maintain(self, watched: Watched) -> None:
        """Read, send and sleep, until no page watches the topic."""
        rest = watched.rule.frame_seconds if watched.rule else FRAME_SECONDS
        poll_seconds = watched.rule.poll_seconds if watched.rule else POLL_SECONDS
        looked_at_all = float("-inf")
        while True:
            began = self._loop.time()
            if began - looked_at_all >= poll_seconds:
                watched.look_at_all = True
            if watched.look_at_all:
                looked_at_all = began
            watched.changed.clear()
            await self._refresh(watched)
            # Limits the frame rate; after a slow read the pause is at least half as long.
            await asyncio.sleep(max(began + rest - self._loop.time(), rest / 2))
            if watched.changed.is_set():
                continue
            try:
                async with asyncio.timeout_at(looked_at_all + poll_seconds):
                    await watched.changed.wait()
            except TimeoutError:
                watched.look_at_all = True
            else:
                await asyncio.sleep(GATHER_SECONDS)

    async def _refresh(self, watched: Watched) -> None:
        if watched.is_asleep:
            watched.look_at_all = True
            return
        names, commits = watched.pop_names()
        try:
            poll = database_sync_to_async(watched.topic.poll, thread_sensitive=False)
            change = await poll(names)
        except Exception:
            # The database is unavailable: the page keeps its state and shows its age.
            logger.exception("topic %s not read", watched.topic.name)
            watched.look_at_all = True
            return
        if change is not None:
            change.commits = commits
            watched.topic.committed_at = change.committed_at
            self._send_deltas(watched, change)
        self._send_snapshots(watched)
        if watched.topic.late:
            late, watched.topic.late = watched.topic.late, set()
            watched.mark_changed(late)

    def _send_deltas(self, watched: Watched, change: Change) -> None:
        topic, at = watched.topic, self._now()
        hidden = change.for_hidden()
        built: dict[tuple[bool, int], str] = {}
        for socket in watched.sockets:
            previous = socket.sequences.get(topic.name)
            part = change if socket.visible else hidden
            if previous is None or part is None:
                continue
            key = (socket.visible, previous)
            if key not in built:
                built[key] = topic.delta(part, previous=previous, at=at)
            queued = socket.offer(built[key])
            socket.sequences[topic.name] = change.sequence if queued else None

    def _send_snapshots(self, watched: Watched) -> None:
        topic = watched.topic
        if topic.sequence == 0:
            return
        due = [s for s in watched.sockets if s.sequences.get(topic.name) is None and s.has_room]
        if not due:
            return
        snapshot = topic.snapshot(at=self._now())
        for socket in due:
            if socket.offer(snapshot):
                socket.sequences[topic.name] = topic.sequence


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


def hub(now: Callable[[], datetime]) -> Hub:
    """Return the hub of the running event loop: one per web process.

    Args:
        now: The clock of its frames, if this call creates the hub.
    """
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = Hub(now)
    return found
