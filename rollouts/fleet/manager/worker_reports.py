"""Records of workers, and the numbered reports of a fleet to the platform."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from rolldeck.wire import (
    EpisodeWindow,
    FleetEvent,
    FleetReport,
    InfoWindow,
    ReportedFleetState,
    WorkerEnding,
    WorkerReport,
)
from rollouts.fleet.manager import admission
from rollouts.fleet.manager.worker_lifecycle import WorkerLifecycle
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.worker.info_values import InfoTotals
from rollouts.fleet.worker.messages import NEVER_SPAWNED, WorkerState, ending_of

EPISODES_PER_REPORT: Final = 4096
EVENTS_PER_REPORT: Final = 256
EPISODES_KEPT: Final = 100_000
EVENTS_KEPT: Final = 4096
MEASURED: Final = (
    *("stages", "time_use", "shares", "last_log", "replicas"),
    *("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes", "machine"),
)
"""Fields that are measured once a second and stay valid until the next measurement."""

Item = TypeVar("Item")


class WorkerRecord:
    """State and losses of one worker over all its incarnations, its reports and its events."""

    def __init__(self, index: int, events: EventLog) -> None:
        """Start before the first incarnation; `events` receives the worker's own events too."""
        self.incarnation = NEVER_SPAWNED
        """Id of the current incarnation."""
        self.state: WorkerState | None = None
        """Last answer of the current incarnation."""
        self.episodes: list[EpisodeWindow] = []
        """Statistics that are still to be reported."""
        self.info: list[InfoWindow] = []
        self.pace = admission.Pace()
        self._index = index
        self._events = events
        self._measured: WorkerReport | None = None
        self._accepted_before = 0
        self._lost_steps = 0
        self._reason = ""

    @property
    def accepted(self) -> int:
        """Number of fragments the platform accepted, over all incarnations."""
        return self._accepted_before + (self.state.accepted if self.state else 0)

    def receive(self, state: WorkerState) -> WorkerState:
        """Forward the episodes and events of an answer; return it with the latest measurements."""
        if state.report.stages or state.episodes or state.report.memory_bytes is not None:
            self._measured = state.report
        self.episodes += state.episodes
        self.info.append(state.info)
        for event in state.events:
            self._events.pass_on(replace(event, details={**event.details, "worker": self._index}))
        if self._measured is not None:
            measurements = {name: getattr(self._measured, name) for name in MEASURED}
            state = replace(state, report=replace(state.report, **measurements))
        return state

    def end(self, reason: str, last: WorkerState | None) -> WorkerEnding:
        """Count the losses of an incarnation that ended, and return its final record.

        `last` is a final state that is newer than the last answer, if there is one.
        """
        last = last or self.state
        self.emit_lost_evaluation(last, reason)
        self._accepted_before += last.accepted if last else 0
        ending = ending_of(self._index, self.incarnation, last, reason[:2000])
        self._lost_steps += ending.lost_steps
        self.state = self._measured = None
        self._reason = reason
        return ending

    def report(
        self,
        lifecycle: WorkerLifecycle,
        *,
        announced_step: int,
        has_worker: bool,
        outstanding: int,
        obstacle: str,
    ) -> WorkerReport:
        """Return the worker's report, including the steps lost by earlier incarnations.

        A worker that has not answered yet has `announced_step` as its newest version.
        """
        state, restarts = self.state, lifecycle.restarts
        if state is not None and has_worker:
            report = replace(state.report, restarts=restarts, outstanding=max(0, outstanding))
        else:
            coming = "respawning" if restarts else "starting"
            report = WorkerReport(
                index=self._index,
                incarnation=self.incarnation,
                state="failed" if lifecycle.is_given_up else coming,  # type: ignore[arg-type]
                reason=obstacle or self._reason,
                restarts=restarts,
                announced_step=announced_step,
            )
        if has_worker and lifecycle.drains_because_of_machine:
            report = replace(report, reason=lifecycle.drain_reason[:2000])
        elif has_worker:
            report = replace(report, is_cordoned=lifecycle.is_cordoned or lifecycle.is_draining)
        elif (why := lifecycle.cordon_reason) is not None:
            reason = f"cordoned: {why}"[:2000]
            report = replace(report, is_cordoned=True, state="stopped", reason=reason, slots=[])
        return self._with_losses(report)

    def final_report(self, *, restarts: int) -> WorkerReport:
        """Return the report of a worker that has ended for good, based on its last one."""
        last = self.state
        report = WorkerReport(index=self._index, incarnation=self.incarnation, state="stopped")
        if last is not None:
            slots = [replace(slot, state="stopped", pid=None) for slot in last.report.slots]
            report = replace(last.report, state="stopped", reason="", slots=slots, machine=None)
        return self._with_losses(replace(report, restarts=restarts))

    def emit_ending(self, kind: str, what: str, ending: WorkerEnding, **details: Any) -> None:
        """Emit an event about an incarnation that ended; `what` follows the worker's name."""
        text = f"Worker {self._index} {what}"
        self._events.add(kind, text, ending=ending, worker=self._index, **details)

    def emit_crash(
        self,
        ending: WorkerEnding,
        *,
        wait: float | None,
        retry: float | None,
        log: Sequence[str],
    ) -> None:
        """Emit the event of a crash.

        The successor starts in `wait` seconds; if the worker is given up (None) in `retry`
        seconds, or never (None).
        """
        if wait is not None:
            what = f"respawning in {wait:.1f} s"
        else:
            what = "given up" if retry is None else f"given up for {retry:.0f} s"
        self.emit_ending(
            "worker_failed" if wait is None else "worker_respawned",
            f"is lost, {what}: {ending.reason}",
            ending,
            level="error" if wait is None else "warning",
            lost_steps=ending.lost_steps,
            unsent_fragments=ending.unsent_fragments,
            log=list(log),
        )

    def emit_lost_evaluation(self, state: WorkerState | None, reason: str) -> None:
        """Emit the event of an evaluation that ended with its worker, if `state` has one."""
        if state is None or state.evaluation is None:
            return
        cause = f"worker {self._index} ended: {reason}"
        self._events.add(
            "evaluation_failed",
            f"The evaluation of version {state.evaluation[1]} failed: {cause}",
            level="warning",
            worker=self._index,
            version=list(state.evaluation),
            reason=cause[:2000],
        )

    def _with_losses(self, report: WorkerReport) -> WorkerReport:
        if not self._lost_steps:
            return report
        losses = {**report.dropped_steps, "worker_lost": self._lost_steps}
        return replace(report, dropped_steps=losses)


class Reporter:
    """Builds reports; an undelivered report is sent again under the same number.

    Its episodes, values of `info` and events stay the same, so the platform can count each number
    once. The state of the fleet and its workers is always current.
    """

    def __init__(self, incarnation: str, *, node_id: str = "") -> None:
        """Start above every number that an earlier process of the incarnation can have used."""
        self.episodes: deque[EpisodeWindow] = deque(maxlen=EPISODES_KEPT)
        self.events: deque[FleetEvent] = deque(maxlen=EVENTS_KEPT)
        self.info = InfoTotals()
        self._incarnation = incarnation
        self._node_id = node_id
        # Ray may restart a manager with the same settings: a counter would restart as well.
        self._sequence = int(time.time() * 1000)
        self._under_way: tuple[list[EpisodeWindow], InfoWindow, list[FleetEvent]] | None = None

    def next(
        self,
        state: ReportedFleetState,
        reason: str,
        workers: list[WorkerReport],
        *,
        is_final: bool = False,
    ) -> FleetReport:
        """Return the next report; see :class:`FleetReport` for `is_final`."""
        if self._under_way is None:
            self._sequence += 1
            episodes = _pop_up_to(self.episodes, EPISODES_PER_REPORT)
            events = _pop_up_to(self.events, EVENTS_PER_REPORT)
            self._under_way = (episodes, self.info.pop(), events)
        episodes, info, events = self._under_way
        return FleetReport(
            incarnation=self._incarnation,
            sequence=self._sequence,
            state=state,
            reason=reason,
            is_final=is_final,
            node_id=self._node_id,
            workers=workers,
            episodes=episodes,
            info=info,
            events=events,
        )

    def delivered(self) -> None:
        self._under_way = None

    def preview(
        self, state: ReportedFleetState, reason: str, workers: list[WorkerReport]
    ) -> FleetReport:
        """Return a report without episodes, values of `info` and events, which is not sent."""
        return FleetReport(
            incarnation=self._incarnation,
            sequence=self._sequence,
            state=state,
            reason=reason,
            workers=workers,
        )


def _pop_up_to(queue: deque[Item], most: int) -> list[Item]:
    return [queue.popleft() for _ in range(min(most, len(queue)))]
