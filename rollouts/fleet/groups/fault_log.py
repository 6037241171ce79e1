"""Log repeated faults at a decreasing rate."""

import threading
from collections import Counter
from typing import Any, Literal, Protocol

from rollouts.fleet.groups.errors import Fault

Level = Literal["info", "warning", "error"]


class Events(Protocol):
    """Receiver of events; :class:`rollouts.fleet.process.loops.EventLog` in a fleet."""

    def add(self, kind: str, message: str, *, level: Level = "info", **details: Any) -> None:
        """Record an event."""


class FaultLog:
    """Emits the first, tenth, hundredth … fault of a kind in a lesson, with the count."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._counts = Counter[tuple[str, str]]()

    def report(self, lesson: str, fault: Fault, *, level: Level = "warning") -> None:
        """Count a fault of a lesson, and emit an event at powers of ten."""
        with self._lock:
            self._counts[lesson, fault.kind] += 1
            count = self._counts[lesson, fault.kind]
        if str(count).strip("0") == "1":
            times = f" ({count} times so far)" if count > 1 else ""
            self._events.add(
                fault.kind,
                f"Lesson {lesson}: {fault.message}{times}",
                level=level,
                lesson=lesson,
                count=count,
            )
