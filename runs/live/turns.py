"""Let many requests of one event loop wait for changes without a thread or a connection each.

Requests that want the same thing (the next batch of a run) stand in one line: a change wakes the
first of them, and the next only when the first got what it wanted. So a push costs one look
into the database, not one for each of five hundred trainers.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from runs.live import wakeups
from runs.live.announcements import Nudge

# A nudge may be lost; the first in each line looks again by itself this often.
LOOK_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Which line to stand in: a run, what is wanted of it, and the parts that tell."""

    run_id: int
    wanted: Hashable
    parts: frozenset[str]


@dataclass(eq=False, slots=True)
class Place:
    """One request in a line."""

    line: Line
    turn: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """The lines of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: dict[Line, deque[Place]] = {}
        self._of_run: dict[int, set[Line]] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._subscriber = wakeups.subscriber()
        self._subscriber.add(self._heard)

    @property
    def is_of_running_loop(self) -> bool:
        """Whether the running event loop is the one these lines belong to."""
        return self._loop is asyncio.get_running_loop()

    def join(self, line: Line) -> Place:
        """Stand at the end of a line; leave it with :meth:`leave`, whatever happens."""
        place = Place(line)
        self._lines.setdefault(line, deque()).append(place)
        self._of_run.setdefault(line.run_id, set()).add(line)
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN_SECONDS, self._look_again)
        return place

    def leave(self, place: Place, *, satisfied: bool) -> None:
        """Go; after one who got what it wanted there may be more, so the next has its turn.

        One that leaves with its turn unused passes it on.
        """
        line = self._lines[place.line]
        line.remove(place)
        if line and (satisfied or place.turn.is_set()):
            line[0].turn.set()
        if not line:
            del self._lines[place.line]
            self._of_run[place.line.run_id].discard(place.line)
            if not self._of_run[place.line.run_id]:
                del self._of_run[place.line.run_id]

    def _heard(self, nudge: Nudge | None) -> None:
        """Called in the subscriber's thread."""
        try:
            self._loop.call_soon_threadsafe(self._ring, nudge)
        except RuntimeError:  # the loop has ended
            self._subscriber.remove(self._heard)

    def _ring(self, nudge: Nudge | None) -> None:
        lines = self._lines if nudge is None else self._of_run.get(nudge.run, ())
        for line in lines:
            if nudge is None or not line.parts.isdisjoint(nudge.parts):
                self._lines[line][0].turn.set()

    def _look_again(self) -> None:
        self._looking = None
        if self._lines:
            self._ring(None)
            self._looking = self._loop.call_later(LOOK_AGAIN_SECONDS, self._look_again)
