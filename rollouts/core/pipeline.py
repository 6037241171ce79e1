"""Measure where a rollout worker's time goes, from observation to sent fragment."""

from collections import deque
from typing import Final

import numpy as np

from rolldeck.wire import StageTiming

STAGES: Final = ("recv", "infer", "act", "env_step", "cut", "enqueue", "send")
WAITING: Final = "waiting"
"""Not a stage: time in which no slot was allowed to act."""
SAMPLES_KEPT: Final = 512
# Below this part of the time at work, no stage is worth naming.
BUSY_SHARE: Final = 0.05
SEND_IS_BUSY_SHARE: Final = 0.9

_BOUND: Final = {
    "recv": "Pipe-bound: {share:.0%} of the time goes to reading observations",
    "infer": "Inference-bound: {share:.0%} of the time goes to the policy",
    "act": "Pipe-bound: {share:.0%} of the time goes to sending actions",
    "env_step": "Environment-bound: {share:.0%} of the time goes to stepping environments",
    "cut": "Cutting-bound: {share:.0%} of the time goes to cutting fragments",
    "enqueue": "Queue-bound: {share:.0%} of the time goes to encoding and queueing fragments",
    "send": "Send-bound: {share:.0%} of the time goes to sending fragments",
    WAITING: "Trainer-bound: {share:.0%} of the time no slot may begin before the trainer moves on",
}


class PipelineMonitor:
    """Durations of each stage in a window, and one sentence that names the bottleneck.

    Several threads may record, each its own stages.
    """

    def __init__(self, *, now: float, window_seconds: float = 60.0) -> None:
        """Start with empty windows.

        Args:
            now: Seconds of a clock that never goes back.
            window_seconds: Age at which a measurement no longer counts.
        """
        self._window_seconds = window_seconds
        self._samples: dict[str, deque[tuple[float, float]]] = {
            stage: deque(maxlen=SAMPLES_KEPT) for stage in STAGES
        }
        self._busy = dict.fromkeys((*STAGES, WAITING), 0.0)
        self._busy_before = dict(self._busy)
        self._judged_at = now

    def record(self, stage: str, seconds: float, now: float) -> None:
        """Add one passage through `stage`, one of STAGES."""
        self._busy[stage] += seconds
        self._samples[stage].append((now, seconds))

    def wait(self, seconds: float) -> None:
        """Add time in which no slot was allowed to act."""
        self._busy[WAITING] += seconds

    def timings(self, now: float) -> dict[str, StageTiming]:
        """Return the stages that were passed within the window, in milliseconds."""
        since = now - self._window_seconds
        timings = {}
        for stage, samples in self._samples.items():
            recent = [seconds for at, seconds in tuple(samples) if at > since]
            if recent:
                timings[stage] = _timing(recent)
        return timings

    def verdict(self, now: float) -> str:
        """Return one sentence about the time since the last verdict; empty if it was idle."""
        elapsed = now - self._judged_at
        if elapsed <= 0:
            return ""
        busy = {name: total - self._busy_before[name] for name, total in self._busy.items()}
        self._busy_before = dict(self._busy)
        self._judged_at = now
        # Sending goes on beside the loop: it holds nothing up before it is busy all the time.
        if busy["send"] < SEND_IS_BUSY_SHARE * elapsed:
            busy["send"] = 0.0
        slowest = max(busy, key=lambda name: busy[name])
        share = min(1.0, busy[slowest] / elapsed)
        if share < BUSY_SHARE:
            return ""
        return _BOUND[slowest].format(share=share) + "."


def _timing(seconds: list[float]) -> StageTiming:
    milliseconds = np.asarray(seconds) * 1000
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return StageTiming(
        mean_ms=float(milliseconds.mean()),
        p50_ms=float(p50),
        p95_ms=float(p95),
        count=len(seconds),
    )
