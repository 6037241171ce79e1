"""Failures of a lesson that leave the other lessons unaffected, and a log of repeated faults."""

import threading
from collections import Counter
from typing import Literal, NamedTuple

from rollouts.fleet.process.loops import EventLog


class LessonFailed(Exception):
    """A lesson returned no rollouts; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str, *, stops: bool = False) -> None:
        """Store the failure; `stops` if the lesson stops for the run, by its setting."""
        super().__init__(message)
        self.kind, self.stops = kind, stops


class SamplingStopped(Exception):
    """Sampling was stopped before all answers were complete."""


class Fault(NamedTuple):
    """A dropped part of a batch, a failed rollout, or a problem that dropped nothing."""

    kind: str
    """``prompt_too_long``, ``tokenizer_unusable``, ``group_invalid``, ``group_missing``,
    ``rollout_failed``, ``rollout_unscored``, ``metric_invalid``, ``row_invalid``,
    ``reward_failed``, ``reward_timeout``, ``reward_invalid``, ``tool_failed``."""
    message: str
    number: int | None = None
    """Number of the problem that has no group for it."""


class FaultLog:
    """Emits the first, tenth, hundredth … fault of a kind in a lesson, with the count."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._counts = Counter[tuple[str, str]]()

    def report(
        self, lesson: str, fault: Fault, *, level: Literal["warning", "error"] = "warning"
    ) -> None:
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
