"""Fan out live topics to the sockets of this process.

One task per watched topic reads the database on each change notice, and every two seconds without
one. It builds each frame once and puts it into the bounded queue of every socket. A slow socket
loses deltas and gets a snapshot once its queue has room.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

from runs.live.rules import rule_of
from runs.live.services.topics import ANY, Change, RunTopic, topic_named
from web.live import wakeups
from web.live.announcements import ChangeNotice
from web.live.outgoing import Socket

logger = logging.getLogger(__name__)

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
            if not watched.changed.is_set():
                await self._wait_for_notice(watched, due_at=looked_at_all + poll_seconds)

    async def _wait_for_notice(self, watched: Watched, *, due_at: float) -> None:
        """Wait for a notice of the topic, at most until the next poll."""
        try:
            async with asyncio.timeout_at(due_at):
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
