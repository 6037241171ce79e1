"""Measure where a rollout worker's time goes, from observation to sent fragment.

Stages are timed each by itself, never as a cycle that must come in order: an environment that
dies in the middle, a restart or a lost step leaves a sample out and upsets nothing.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import numpy as np

from rolldeck.wire import StageTiming

STAGES: Final = ("recv", "infer", "act", "env_step", "cut", "enqueue", "send")
WAITING: Final = ("waiting_room", "waiting_weights")
"""No stages: time in which no slot was allowed to act, for want of room or of weights."""
SAMPLES_KEPT: Final = 512
# Below this part of the time at work, no stage is worth naming.
BUSY_SHARE: Final = 0.05
MOSTLY_WAITING_SHARE: Final = 0.5
SELDOM_WAITING_SHARE: Final = 0.2
SEND_IS_BUSY_SHARE: Final = 0.9

_BOUND: Final = {
    "recv": "Pipe-bound: {share:.0%} of the time goes to reading observations",
    "infer": "Inference-bound: {share:.0%} of the time goes to the policy",
    "act": "Pipe-bound: {share:.0%} of the time goes to sending actions",
    "env_step": "Environment-bound: {share:.0%} of the time goes to stepping environments",
    "cut": "Cutting-bound: {share:.0%} of the time goes to cutting fragments",
    "enqueue": "Queue-bound: {share:.0%} of the time goes to encoding and queueing fragments",
    "send": "Send-bound: {share:.0%} of the time goes to sending fragments",
    "waiting_room": (
        "Trainer-bound: {share:.0%} of the time no slot may begin before the trainer moves on"
    ),
    "waiting_weights": ("Waiting for weights: {share:.0%} of the time there are none to act with"),
}


class PipelineMonitor:
    """Durations of each stage in a window, and what part of the time each takes.

    Several threads may record, each its own stages.
    """

    def __init__(self, *, now: float, window_seconds: float = 60.0, env_processes: int = 1) -> None:
        """Start with empty windows.

        Args:
            now: Seconds of a clock that never goes back.
            window_seconds: Age at which a measurement no longer counts.
            env_processes: How many step environments side by side: their time counts once.
        """
        self._window_seconds = window_seconds
        self._env_processes = env_processes
        self._samples: dict[str, deque[tuple[float, float]]] = {
            stage: deque(maxlen=SAMPLES_KEPT) for stage in STAGES
        }
        self._busy = dict.fromkeys((*STAGES, *WAITING), 0.0)
        self._busy_before = dict(self._busy)
        self._judged_at = now

    def record(self, stage: str, seconds: float, now: float) -> None:
        """Add one passage through `stage`, one of STAGES."""
        self._busy[stage] += seconds
        self._samples[stage].append((now, seconds))

    def wait(self, seconds: float, *, wants: Literal["room", "weights"]) -> None:
        """Add time in which no slot was allowed to act, and what it waited for."""
        self._busy[f"waiting_{wants}"] += seconds

    def timings(self, now: float) -> dict[str, StageTiming]:
        """Return the stages that were passed within the window, in milliseconds."""
        since = now - self._window_seconds
        timings = {}
        for stage, samples in self._samples.items():
            recent = [seconds for at, seconds in tuple(samples) if at > since]
            if recent:
                timings[stage] = _timing(recent)
        return timings

    def shares(self, now: float) -> dict[str, float]:
        """Return what part of the time since the last call each stage and wait took, 0 to 1."""
        elapsed = now - self._judged_at
        if elapsed <= 0:
            return {}
        busy = {name: total - self._busy_before[name] for name, total in self._busy.items()}
        self._busy_before = dict(self._busy)
        self._judged_at = now
        busy["env_step"] /= self._env_processes
        return {
            name: round(min(1.0, seconds / elapsed), 4)
            for name, seconds in busy.items()
            if seconds > 0
        }


def judge(shares: Mapping[str, float]) -> str:
    """Return one sentence that names what takes most of the time; empty if nothing does.

    Args:
        shares: Parts of the time by stage or wait, as :meth:`PipelineMonitor.shares` gives them;
            other names count for nothing.
    """
    busy = {name: share for name, share in shares.items() if name in _BOUND}
    # Sending goes on beside the loop: it holds nothing up before it is busy all the time.
    if busy.get("send", 0.0) < SEND_IS_BUSY_SHARE:
        busy.pop("send", None)
    slowest = max(busy, key=lambda name: busy[name], default="")
    if not slowest or busy[slowest] < BUSY_SHARE:
        return ""
    return _BOUND[slowest].format(share=busy[slowest]) + "."


def judge_trainer(waiting_share: float) -> str:
    """Return one sentence on who waits for whom, by the part of its time that a trainer waits."""
    said = f"The trainer waits {waiting_share:.0%} of its time for data"
    if waiting_share >= MOSTLY_WAITING_SHARE:
        return f"{said}: the fleet is the bottleneck."
    if waiting_share <= SELDOM_WAITING_SHARE:
        return f"{said}: the trainer is the bottleneck."
    return f"{said}: fleet and trainer keep pace."


def mean_shares(workers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return each share as the mean over workers; one that did not measure counts for nothing."""
    measured = [shares for shares in workers if shares]
    names = (name for name in _BOUND if any(name in shares for shares in measured))
    return {
        name: round(sum(shares.get(name, 0.0) for shares in measured) / len(measured), 4)
        for name in names
    }


def idle_share(shares: Mapping[str, float]) -> float | None:
    """Return the part of the time in which nothing was allowed to act; None if not measured."""
    if not shares:
        return None
    return round(min(1.0, sum(shares.get(name, 0.0) for name in WAITING)), 4)


def _timing(seconds: list[float]) -> StageTiming:
    milliseconds = np.asarray(seconds) * 1000
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return StageTiming(
        mean_ms=float(milliseconds.mean()),
        p50_ms=float(p50),
        p95_ms=float(p95),
        count=len(seconds),
    )
