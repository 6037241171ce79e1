"""Simulated fleet manager: writes its reports, logs and recordings without any process."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from rolldeck.operator_requests import LogLines, RecordedEpisode, RecordingUpdate
from rolldeck.wire import (
    EpisodeWindow,
    FleetEvent,
    FleetReport,
    SlotReport,
    StageTiming,
    WeightsTransfers,
    WorkerReport,
)
from rollouts.control.queries.fleets import control_of
from rollouts.control.schemas import RecordingRequest
from rollouts.control.services.reconciliation import begin_launch, record_manager_placed
from rollouts.control.services.recordings import request_recordings, update_recording
from rollouts.control.services.reports import accept_report
from rollouts.control.services.worker_requests import answer_log, request_log
from rollouts.fleet.process.spans import time_use
from rollouts.metrics.services.measuring import measure_resources
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from runs.lifecycle.services.lifecycle import change_status
from tests.sample_runs.timeline import ACTOR, RunTimeline, incarnation_of

Returns = NDArray[np.floating[Any]]
SLOTS: Final = 8
NODES: Final = ("gpu-a1", "gpu-a2", "cpu-b1", "cpu-b2")
STAGES: Final = {
    "recv": 0.05,
    "infer": 0.22,
    "act": 0.03,
    "env_step": 0.49,
    "cut": 0.02,
    "enqueue": 0.02,
    "send": 0.01,
}
WAITS: Final = {"waiting_room": 0.11, "waiting_weights": 0.03}
"""Shares of the time in which a worker waits; together with `STAGES` at most 1."""
LOG: Final = (
    "INFO  worker {worker} up on {node}, pid {pid}",
    "INFO  policy mlp 64×64, 4,675 parameters, device cpu",
    "INFO  8 env slots in one process",
    "INFO  weights 1.0 loaded in 0.041 s",
    "ERROR env slot 5: ValueError: pole angle is nan, the environment is restarted",
    "INFO  env slot 5 is up again after 0.8 s",
)


@dataclass(slots=True, kw_only=True)
class FakeFleet:
    """The simulated fleet of one run."""

    run: Run
    workers: int
    random: np.random.Generator
    incarnation: str = ""
    sequence: int = 0
    env_steps: int = 0
    restarts: int = 0
    weights_command: int = 0

    @classmethod
    def launched(cls, run: Run, *, timeline: RunTimeline, workers: int) -> "FakeFleet":
        """Start a run and become its only manager, before a reconciler sees it."""
        placed_at = timeline.at(0.01)
        change_status(run_id=run.pk, verb=RunVerb.START, actor=ACTOR, now=timeline.at(0))
        order = begin_launch(
            run_id=run.pk,
            reason="the run was started",
            platform_url=settings.ROLLDECK_PUBLIC_URL,
            now=placed_at,
        )
        assert order is not None
        record_manager_placed(run_id=run.pk, incarnation=order.incarnation, now=placed_at)
        return cls(
            run=run,
            workers=workers,
            random=timeline.random,
            incarnation=order.incarnation,
        )

    def report(
        self,
        *,
        at: datetime,
        policy_step: int,
        returns: Sequence[tuple[str, str, Returns]] = (),
        events: Sequence[FleetEvent] = (),
        state: str = "running",
        seconds: float = 1.0,
    ) -> None:
        """Report all workers and the ended episodes: (environment, mode, returns)."""
        self.env_steps += int(480 * seconds)
        windows = [
            window(
                found, environment=name, mode=mode, worker=place % self.workers, step=policy_step
            )
            for place, (name, mode, found) in enumerate(returns)
        ]
        report = FleetReport(
            incarnation=self.incarnation,
            sequence=self.sequence,
            state=state,  # type: ignore[arg-type]
            workers=[self._worker(index, policy_step, state) for index in range(self.workers)],
            episodes=windows,
            events=list(events),
        )
        self.sequence += 1
        accept_report(run_id=self.run.pk, report=report, now=at)
        measure_resources(now=at, only_run=self.run.pk)

    def answer_operator_requests(self, *, at: datetime) -> None:
        """Answer the pending requests for logs and recordings."""
        control = control_of(self.run.pk)
        for request in control.log_requests:
            lines = LogLines(
                lines=self._log(request.worker or 0), node=NODES[0], path="/var/log/w.log"
            )
            answer_log(run_id=self.run.pk, request=request.id, answer=lines, now=at)  # type: ignore[arg-type]
        for order in control.recordings:
            self._record(order.id, order.worker or 0, order.slot or 0, at=at)

    def add_operator_requests(self, *, at: datetime, actor: str) -> None:
        """Request and answer some logs and recordings; one recording fails."""
        for worker in range(self.workers):
            request_log(run_id=self.run.pk, worker=worker, slot=None, lines=200, now=at)
        for slot in (0, 3, 5):
            body = RecordingRequest(worker=0, slot=slot)
            request_recordings(run_id=self.run.pk, body=body, actor=actor, now=at)
        self.answer_operator_requests(at=at)

    def _record(self, recording: str, worker: int, slot: int, *, at: datetime) -> None:
        fields: dict[str, Any] = {"worker": worker, "slot": slot}
        if slot == 5:
            reason = "the environment ended before its first frame: pole angle is nan"
            update = RecordingUpdate(state="failed", reason=reason, **fields)
        else:
            frames = [_frame(tilt) for tilt in np.cumsum(self.random.normal(0, 0.6, 40))]
            update = RecordingUpdate(
                state="ready",
                total_return=float(len(frames)),
                length=len(frames),
                outcome="terminated",
                policy_step=12,
                media=RecordedEpisode(
                    media_type="text/plain", frames=len(frames), frames_per_second=20.0
                ),
                content="\f".join(frames).encode(),
                **fields,
            )
        update_recording(
            run_id=self.run.pk,
            recording_id=recording,  # type: ignore[arg-type]
            update=update,
            now=at,
        )

    def _log(self, worker: int) -> list[str]:
        fields = {"worker": worker, "node": NODES[worker % 4]}
        return [line.format(pid=41_000 + worker, **fields) for line in LOG]

    def _worker(self, index: int, policy_step: int, state: str) -> WorkerReport:
        lags = index == self.workers - 1 and policy_step > 0
        pace = 0.0 if state != "running" else 120.0 - 9 * index + float(self.random.normal(0, 3))
        made = self.env_steps // self.workers
        return WorkerReport(
            index=index,
            incarnation=incarnation_of(index, restarts=self.restarts if index == 2 else 0),
            state=state,  # type: ignore[arg-type]
            node=NODES[index % len(NODES)],
            pid=41_000 + index,
            restarts=self.restarts if index == 2 else 0,
            announced_step=policy_step,
            staged_step=policy_step,
            active_step=policy_step - 1 if lags else policy_step,
            env_steps=made,
            env_steps_per_second=round(pace, 1),
            fragments_cut=made // 32,
            fragments_sent=made // 32,
            to_send=index % 3,
            outstanding=4 + index % 3,
            stages={name: _timing(part * 16) for name, part in STAGES.items()},
            shares=STAGES | WAITS,
            time_use=time_use(STAGES | WAITS),
            last_log=self._log(index)[-1],
            slots=[_slot(slot, index, made) for slot in range(SLOTS)],
            cpu_percent=round(71 + 5 * index + float(self.random.normal(0, 2)), 1),
            memory_bytes=(310 + 12 * index + max(0, policy_step) // 2) << 20,
            gpu_percent=31.0 + 3 * index + policy_step % 5 if index < 2 else None,
            gpu_memory_bytes=2_100 << 20 if index < 2 else None,
            transfers=WeightsTransfers(
                received=policy_step + 1,
                adopted=policy_step + (0 if lags else 1),
                superseded=int(lags),
                received_bytes=(policy_step + 1) * 19_000,
                seconds=0.04 * (policy_step + 1),
                order=self.weights_command - lags if self.weights_command else 0,
            ),
        )


def window(found: Returns, *, environment: str, mode: str, worker: int, step: int) -> EpisodeWindow:
    """Return statistics of episodes whose length equals their return, as in CartPole."""
    p10, p50, p90 = (float(value) for value in np.percentile(found, [10, 50, 90]))
    lengths = [max(1, int(value)) for value in found]
    truncated = sum(length >= 500 for length in lengths)
    return EpisodeWindow(
        environment=environment,
        worker=worker,
        mode=mode,  # type: ignore[arg-type]
        seconds=1.0,
        count=len(found),
        return_sum=float(found.sum()),
        return_mean=float(found.mean()),
        return_min=float(found.min()),
        return_max=float(found.max()),
        return_p10=p10,
        return_p50=p50,
        return_p90=p90,
        discounted_return_mean=float(100 * (1 - 0.99 ** found.mean())),
        length_mean=float(np.mean(lengths)),
        length_max=max(lengths),
        terminated=len(lengths) - truncated,
        truncated=truncated,
        aborted=0,
        returns=[float(value) for value in found],
        lengths=lengths,
        policy_step=step,
    )


def _slot(slot: int, worker: int, made: int) -> SlotReport:
    is_odd = worker == 1 and slot == 5
    return SlotReport(
        slot=slot,
        state="restarting" if is_odd else "stepping",
        pid=None if is_odd else 52_000 + 10 * worker + slot,
        episodes=made // 60 // SLOTS,
        restarts=3 if is_odd else 0,
        error="ValueError: pole angle is nan" if is_odd else "",
    )


def _timing(mean_ms: float) -> StageTiming:
    return StageTiming(
        mean_ms=round(mean_ms, 3),
        p50_ms=round(mean_ms * 0.9, 3),
        p95_ms=round(mean_ms * 2.1, 3),
        count=600,
    )


def _frame(tilt: float) -> str:
    """Draw one frame of a cart and its pole as text."""
    place = int(np.clip(20 + 2 * tilt, 4, 36))
    lean = int(np.clip(round(tilt / 2), -3, 3))
    pole = [" " * (place + lean * row // 3) + "|" for row in (3, 2, 1)]
    return "\n".join([*pole, " " * (place - 3) + "[=====]", "-" * 41])
