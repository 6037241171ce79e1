"""Timing of a rollout worker's pipeline, from observation to sent fragment.

Stages are timed independently of their order: an environment that crashes, a restart or a lost step
omits a sample and distorts nothing.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from rolldeck.wire import StageTiming
from web.rules.amounts import percent

STAGES: Final = ("recv", "infer", "act", "env_step", "cut", "enqueue", "send")
WAITING: Final = ("waiting_room", "waiting_weights")
"""Time in which no slot was allowed to act: paused by the admission limit, or without weights."""
SAMPLES_KEPT: Final = 512
# Share of the busy time below which no stage is worth reporting.
BUSY_SHARE: Final = 0.05
SEND_IS_BUSY_SHARE: Final = 0.9

_DESCRIPTIONS: Final = {
    "recv": "Reading observations takes {share} of its time",
    "infer": "The policy takes {share} of its time",
    "act": "Sending actions takes {share} of its time",
    "env_step": "Stepping environments takes {share} of its time",
    "cut": "Cutting fragments takes {share} of its time",
    "enqueue": "Encoding and queueing fragments takes {share} of its time",
    "send": "Sending fragments takes {share} of its time",
    "waiting_room": "The staleness or queue limit pauses it {share} of its time",
    "waiting_weights": "It waits for weights {share} of its time",
}


class CallTimer:
    """Context manager for calls of foreign code; another thread reads how long one has lasted."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def seconds(self, now: float) -> float:
        """Return for how long the present call has lasted; 0 outside of calls."""
        since = self._since
        return 0.0 if since is None else now - since


class PipelineMonitor:
    """Durations of each stage in a window, the share of the window that each takes, and rates.

    Several threads may record, each its own stages.
    """

    def __init__(self, *, now: float, window_seconds: float = 60.0, env_processes: int = 1) -> None:
        """Start with empty windows; all times are seconds of one monotonic clock.

        The time of `env_processes`, which step environments in parallel, counts once.
        """
        self._window_seconds = window_seconds
        self._env_processes = env_processes
        self._samples: dict[str, deque[tuple[float, float]]] = {
            stage: deque(maxlen=SAMPLES_KEPT) for stage in STAGES
        }
        self._busy = dict.fromkeys((*STAGES, *WAITING), 0.0)
        self._counts: dict[str, int] = {}
        # Totals at earlier readings, oldest first. Shares and rates are measured since the oldest.
        self._readings: deque[tuple[float, dict[str, float]]] = deque([(now, dict(self._busy))])

    def record(self, stage: str, seconds: float, now: float) -> None:
        """Add the duration of one pass through `stage`, one of STAGES."""
        self._busy[stage] += seconds
        self._samples[stage].append((now, seconds))

    def wait(self, seconds: float, *, wants: Literal["room", "weights"]) -> None:
        """Add time in which no slot was allowed to act, for lack of what it `wants`."""
        self._busy[f"waiting_{wants}"] += seconds

    def count(self, name: str, total: int) -> None:
        """Set the number of finished units called `name`, since the beginning."""
        self._counts[name] = total

    def total(self, *stages: str) -> float:
        """Return the seconds that the given stages have taken so far."""
        return sum(self._busy[stage] for stage in stages)

    def timings(self, now: float) -> dict[str, StageTiming]:
        """Return timings in milliseconds of the stages that ran within the window."""
        since = now - self._window_seconds
        timings = {}
        for stage, samples in self._samples.items():
            recent = [seconds for at, seconds in tuple(samples) if at > since]
            if recent:
                timings[stage] = timing_of(recent)
        return timings

    def shares(self, now: float, *, is_changed: bool = False) -> dict[str, float]:
        """Return the share of the last window that each stage and wait took, 0 to 1.

        The window equals that of the trainer's waiting share, so a diagnosis compares the same
        minute on both sides of the queue.

        Args:
            now: Seconds of the clock of the constructor.
            is_changed: Whether the worker's situation has changed since the last call, for instance
                because it resumed. Earlier measurements are then ignored: the window begins at the
                last call.
        """
        if now <= self._readings[-1][0]:
            return {}
        oldest_kept = self._readings[-1][0] if is_changed else now - self._window_seconds
        while len(self._readings) > 1 and self._readings[1][0] <= oldest_kept:
            self._readings.popleft()
        since, before = self._readings[0]
        self._readings.append((now, {**self._busy, **self._counts}))
        busy = {name: total - before[name] for name, total in self._busy.items()}
        busy["env_step"] /= self._env_processes
        return {
            name: round(min(1.0, seconds / (now - since)), 4)
            for name, seconds in busy.items()
            if seconds > 0
        }

    def rate(self, name: str) -> float:
        """Return the units called `name` per second, in the window of the last shares."""
        (since, before), (until, after) = self._readings[0], self._readings[-1]
        if until <= since:
            return 0.0
        return max(0.0, after.get(name, 0.0) - before.get(name, 0.0)) / (until - since)


def time_use(shares: Mapping[str, float]) -> str:
    """Return one sentence that names the largest part of a worker's time; empty if none is large.

    The bottleneck of the run depends on both sides of the queue; only
    :func:`rollouts.diagnosis.rules.causes.diagnose` diagnoses it. `shares` are those of
    :meth:`PipelineMonitor.shares`; other names are ignored.
    """
    busy = {name: share for name, share in shares.items() if name in _DESCRIPTIONS}
    # Sending runs concurrently with the loop. It delays nothing until it is busy all the time.
    if busy.get("send", 0.0) < SEND_IS_BUSY_SHARE:
        busy.pop("send", None)
    most = max(busy, key=lambda name: busy[name], default="")
    if not most or busy[most] < BUSY_SHARE:
        return ""
    return _DESCRIPTIONS[most].format(share=percent(busy[most])) + "."


def mean_shares(workers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return each share as the mean over workers; workers without measurements are ignored."""
    measured = [shares for shares in workers if shares]
    names = (name for name in _DESCRIPTIONS if any(name in shares for shares in measured))
    return {
        name: round(sum(shares.get(name, 0.0) for shares in measured) / len(measured), 4)
        for name in names
    }


def timing_of(seconds: Sequence[float]) -> StageTiming:
    """Return a summary in milliseconds of one or more measured durations."""
    milliseconds = np.asarray(seconds) * 1000
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return StageTiming(
        mean_ms=float(milliseconds.mean()),
        p50_ms=float(p50),
        p95_ms=float(p95),
        count=len(seconds),
    )
