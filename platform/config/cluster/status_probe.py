"""Probe a part of the deployment in a thread, with a bounded wait for its answer."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from config.cluster.messages import PartState

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult(Generic[T]):
    """Last known status of a part, with the answer of its last successful probe."""

    state: PartState
    answer: T | None = None
    confirmed_at: datetime | None = None
    took_ms: float | None = None
    problem: str = ""


class StatusProbe(Generic[T]):
    """Probe one part in a separate thread, one probe at a time.

        probe.start()                      # start the probes of several parts
        result = probe.result(by=deadline) # the status known by the deadline

    A probe that hangs keeps its thread. Readers do not wait for it, and no second probe starts
    until it ends.
    """

    def __init__(
        self,
        read: Callable[..., T],
        *,
        clock: Callable[[], datetime],
        fresh_seconds: float = 2.0,
        valid_seconds: float = 10.0,
    ) -> None:
        """Configure the probe without starting it.

        Args:
            read: Returns the part's answer, or raises if there is none. Receives the arguments of
                :meth:`start`.
            clock: Returns the time recorded for a successful probe.
            fresh_seconds: Minimum time between the end of a probe and the start of the next.
            valid_seconds: Time for which the last status stays valid during a slower probe.
        """
        self._read = read
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._valid_seconds = valid_seconds
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._is_reading = False
        self._began = 0.0
        self._ended: float | None = None
        self._last: ProbeResult[T] = ProbeResult(state="unknown", problem="not probed yet")

    def start(self, *signal_arguments: Any) -> None:
        """Start a probe, unless one is running or has just ended."""
        with self._lock:
            fresh = self._ended is not None and (
                time.monotonic() - self._ended < self._fresh_seconds
            )
            if self._is_reading or fresh:
                return
            self._is_reading, self._began = True, time.monotonic()
            self._done.clear()
        threading.Thread(
            target=self._run, args=signal_arguments, name="rolldeck-probe", daemon=True
        ).start()

    def result(self, *, by: float) -> ProbeResult[T]:
        """Return the last status; `unknown` if it is old and the probe has not ended.

        Args:
            by: Deadline of the wait, on :func:`time.monotonic`'s clock.
        """
        self._done.wait(max(0.0, by - time.monotonic()))
        with self._lock:
            if not self._is_reading:
                return self._last
            now = time.monotonic()
            if self._ended is not None and now - self._ended < self._valid_seconds:
                return self._last
            waited = now - self._began
            return replace(self._last, state="unknown", problem=f"no answer for {waited:.1f} s")

    def _run(self, *signal_arguments: Any) -> None:
        try:
            answer = self._read(*signal_arguments)
        except Exception as error:
            logger.debug("deployment part does not answer", exc_info=True)
            result = replace(self._last, state="down", problem=_first_line(error))
        else:
            result = ProbeResult(
                state="up",
                answer=answer,
                confirmed_at=self._clock(),
                took_ms=(time.monotonic() - self._began) * 1000,
            )
        with self._lock:
            self._last = result
            self._ended = time.monotonic()
            self._is_reading = False
        self._done.set()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
