"""Background loops with restarts, and their events."""

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rolldeck.wire import FleetEvent, WorkerEnding

logger = logging.getLogger(__name__)

EVENTS_KEPT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """Limit on crashes, and the delay before each restart."""

    most_crashes: int
    """Number of crashes within the window after which there are no more restarts."""
    window_seconds: float
    first_seconds: float
    """Delay after the first crash; each further crash in the window doubles it."""
    most_seconds: float


@dataclass(slots=True)
class RestartBudget:
    """Crash history of one component under one rule."""

    rule: RestartRule
    total: int = 0
    """Total number of crashes."""
    _recent: deque[float] = field(default_factory=deque)

    def crashed(self, now: float) -> float | None:
        """Return the seconds to wait before the next restart; None if there must be none."""
        rule = self.rule
        self.total += 1
        self._recent.append(now)
        while self._recent[0] <= now - rule.window_seconds:
            self._recent.popleft()
        if len(self._recent) >= rule.most_crashes:
            return None
        return min(rule.most_seconds, rule.first_seconds * 2.0 ** (len(self._recent) - 1))


LOOP_RULE: Final = RestartRule(
    most_crashes=10, window_seconds=120.0, first_seconds=0.2, most_seconds=10.0
)


class EventLog:
    """Events that wait to be reported; the oldest are discarded when there are too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[FleetEvent] = []

    def add(
        self,
        kind: str,
        message: str,
        *,
        level: Literal["info", "warning", "error"] = "info",
        ending: WorkerEnding | None = None,
        **details: Any,
    ) -> None:
        """Add an event; set `ending` if it ended an incarnation of a worker."""
        logger.log(logging.INFO if level == "info" else logging.WARNING, "%s: %s", kind, message)
        event = FleetEvent(
            kind=kind, message=message[:4000], level=level, details=details, ending=ending
        )
        self.pass_on(event)

    def pass_on(self, event: FleetEvent) -> None:
        with self._lock:
            self._events.append(event)
            del self._events[:-EVENTS_KEPT]

    def pop(self) -> list[FleetEvent]:
        with self._lock:
            events, self._events = self._events, []
        return events


class Loop:
    """Thread that repeats `turn`; an exception is reported as an event and retried.

    When turns crash too often, the loop ends and sets `is_broken`.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], None],
        events: EventLog,
        *,
        rule: RestartRule = LOOP_RULE,
    ) -> None:
        self.name = name
        self.is_broken = False
        self.error = ""
        self._turn = turn
        self._events = events
        self._stop = threading.Event()
        self._budget = RestartBudget(rule)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; call this once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current turn; returns at once."""
        self._stop.set()

    def join(self, timeout_seconds: float) -> None:
        """Wait until the current turn is over, up to a time limit."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def pause(self, seconds: float) -> None:
        """Sleep within a turn, until the loop is stopped at most."""
        self._stop.wait(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception as error:
                logger.exception("loop %s crashed", self.name)
                self.error = f"{type(error).__name__}: {error}"
                wait = self._budget.crashed(time.monotonic())
                self._events.add(
                    "loop_crashed",
                    f"Loop {self.name}: {self.error}",
                    level="warning" if wait is not None else "error",
                    trace=traceback.format_exc(limit=-3),
                )
                if wait is None:
                    self.is_broken = True
                    return
                self._stop.wait(wait)
