"""Tell of what goes wrong again and again without drowning everything else."""

import threading
from collections import Counter
from typing import Any, Literal, Protocol

from rollouts.fleet.groups.errors import Fault

Level = Literal["info", "warning", "error"]


class Events(Protocol):
    """Where events go: :class:`rollouts.fleet.worker.loops.EventLog` in a fleet."""

    def add(self, kind: str, message: str, *, level: Level = "info", **details: Any) -> None:
        """Note that something happened."""


class FaultLog:
    """Says the first, the tenth, the hundredth … of a kind in a lesson, with their number."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._counts = Counter[tuple[str, str]]()

    def tell(self, lesson: str, fault: Fault, *, level: Level = "warning") -> None:
        """Note a fault of a lesson; each is counted, few are told."""
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
