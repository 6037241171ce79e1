"""Manage the fleet of one run: apply the platform's commands and report the fleet's state."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from rolldeck.errors import (
    ConflictError,
    InvalidMessageError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    RolldeckError,
)
from rolldeck.wire import (
    FleetControl,
    FleetReport,
    ReportedFleetState,
)
from rollouts.fleet.manager import admission
from rollouts.fleet.manager.operator_requests import OperatorRequests
from rollouts.fleet.manager.worker_pool import WorkerPool
from rollouts.fleet.manager.worker_reports import Reporter
from rollouts.fleet.manager.workers import LocalWorkers, WorkerSource
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import ActorLog, RingFile
from rollouts.fleet.process.loops import LOOP_RULE, EventLog, Loop, RestartRule
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.weights.records import NO_STEP, Version, WeightsOffer, WeightsUnavailable
from rollouts.fleet.weights.sources import source_for
from rollouts.fleet.worker.messages import WorkerCommand

TICK_SECONDS: Final = 0.1
MEASURE_SECONDS: Final = 0.9
"""Interval at which workers are asked for statistics; just under the report interval."""
POLL_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 1.0
PLENTY_SECONDS: Final = 0.25
"""Pause between polls while admission leaves far more room than the fleet can use."""
RETIRE_AFTER_SECONDS: Final = 60.0
"""Time the platform may refuse this manager before the manager shuts the fleet down."""


@dataclass(frozen=True, slots=True)
class ReceivedControl:
    """A command, and the number of accepted fragments before it was requested.

    One object holds both: with the room of one command and the count of a later one, workers
    would get too many credits.
    """

    control: FleetControl
    accepted: int


class RolloutManager:
    """Workers of a fleet, the loops that run them, and the platform's latest command.

    The loops are: conduct (spawn, supervise, command), control (long poll), weights (download),
    report, and one for operator requests. No loop waits for another, and each survives an
    outage of the platform.
    """

    def __init__(
        self,
        settings: FleetSettings,
        source: WorkerSource,
        *,
        owns_process: bool = False,
        node_id: str = "",
        loop_rule: RestartRule = LOOP_RULE,
    ) -> None:
        """Start all loops; `node_id` is Ray's id of the node that runs the manager.

        The fleet counts as failed once a loop crashes too often for `loop_rule`.
        """
        self._settings = settings
        self._source = source
        self._api = PlatformApi(settings)
        self._events = EventLog()
        self._worker_pool = WorkerPool(settings=settings, source=source, events=self._events)
        self._operator_requests = OperatorRequests(
            settings, api=self._api, worker_pool=self._worker_pool, source=source
        )
        self._received: ReceivedControl | None = None
        self._shared: WeightsOffer | None = None
        self._source_of_weights = source_for(self._api, directory=settings.weights_directory)
        self._told_of_weights: tuple[str, Version] | None = None
        self._measured_at = 0.0
        self._refused_since: float | None = None
        self._is_stopped = False
        self._reported_state = ""
        self._obstacle = ""
        self._wake_conduct = threading.Event()
        self._wake_weights = threading.Event()
        self._wake_report = threading.Event()
        self._reporter = Reporter(settings.incarnation, node_id=node_id)
        turns: dict[str, Callable[[], None]] = {
            "conduct": self._run_control_loop,
            "control": self._listen,
            "weights": self._fetch,
            "report": self._report,
            "operator_requests": self._operator_requests.turn,
        }
        logs.delete_old_runs(settings)
        self._log = ActorLog(
            RingFile(logs.log_of(settings, worker=None, slot=None)),
            threads=("",) if owns_process else tuple(turns),
        )
        self._loops = {
            name: Loop(name, turn, self._events, rule=loop_rule) for name, turn in turns.items()
        }
        for loop in self._loops.values():
            loop.start()

    @property
    def _control(self) -> FleetControl | None:
        received = self._received
        return received.control if received else None

    @property
    def is_stopped(self) -> bool:
        """Whether the manager has ended all workers for good."""
        return self._is_stopped

    def ping(self) -> str:
        """Return the fingerprint of the settings, as a liveness check."""
        return self._settings.fingerprint

    def snapshot(self) -> FleetReport:
        """Return the state of the fleet, without statistics and events."""
        state, reason = self._state()
        return self._reporter.preview(state, reason, self._worker_pool.reports(self._newest_step()))

    def shutdown(self) -> None:
        for loop in self._loops.values():
            loop.stop()
        for event in (self._wake_conduct, self._wake_weights, self._wake_report):
            event.set()
        self._operator_requests.wake()
        self._loops["conduct"].join(5.0)
        self._stop_workers()
        for name in ("weights", "report"):
            self._loops[name].join(2.0)
        self._api.close()
        self._log.close()

    def _run_control_loop(self) -> None:
        self._wake_conduct.wait(TICK_SECONDS)
        self._wake_conduct.clear()
        now = time.monotonic()
        if self._is_stopped:
            return
        if self._control is not None and self._control.desired == "stopped":
            self._stop_workers()
            return
        if self._control is not None and self._control.num_workers:
            self._worker_pool.resize(self._control.num_workers, now)
        if self._control is not None:
            self._worker_pool.cordon(self._control.cordons, now)
            self._worker_pool.vacate(self._control.machines, now)
            self._worker_pool.restart(self._control.restarts, now)
        self._worker_pool.turn(now)
        self._order(now)
        waiting = [member for member in self._worker_pool.staying if member.obstacle]
        before = self._obstacle
        self._obstacle = "; ".join(sorted({member.obstacle for member in waiting}))
        # The amounts in the text change often; a single event marks the start.
        if self._obstacle and not before:
            text = f"{len(waiting)} workers cannot start: {self._obstacle}"
            self._events.add("fleet_unschedulable", text, level="warning")
        if before and not self._obstacle:
            self._events.add("fleet_schedulable", "All workers of the fleet have been placed")
        if self._state()[0] != self._reported_state:
            self._wake_report.set()

    def _order(self, now: float) -> None:
        received = self._received
        control = received.control if received else None
        is_measuring = now - self._measured_at >= MEASURE_SECONDS
        if is_measuring:
            self._measured_at = now
        members = self._worker_pool.members
        shares = [0] * len(members)
        step = received.control.policy_step if received else NO_STEP
        if received is not None and received.control.desired == "running" and step != NO_STEP:
            free = admission.room(
                admission_remaining=received.control.admission_remaining,
                accepted_since=self._worker_pool.accepted - received.accepted,
                outstanding=self._worker_pool.outstanding,
            )
            shares = admission.share_out(free, [member.demand_at(step) for member in members])
        for member, share in zip(members, shares, strict=True):
            if control is None:
                command = WorkerCommand(desired="paused", is_reporting=is_measuring)
            else:
                command = WorkerCommand(
                    desired=control.desired,
                    epoch=control.epoch,
                    policy_step=control.policy_step,
                    credits=share,
                    is_reporting=is_measuring,
                )
            member.give(command, now)
            if self._shared is not None:
                member.offer_weights(self._shared, now)

    def _stop_workers(self) -> None:
        members = self._worker_pool.members
        stopping = [future for member in members if (future := member.stop(time.monotonic()))]
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline and not all(future.done() for future in stopping):
            time.sleep(0.05)
        for member in members:
            member.kill()
        self._source.close()
        self._is_stopped = True
        self._wake_report.set()

    def _listen(self) -> None:
        after = self._control.fingerprint if self._control else ""
        wait = POLL_SECONDS if self._control else 0.0
        accepted = self._worker_pool.accepted
        try:
            control = self._api.control(after=after, wait_seconds=wait)
            if wait and control.fingerprint != after:
                # The admission room is current, but `accepted` was read before the wait.
                accepted = self._worker_pool.accepted
                control = self._api.control(after="", wait_seconds=0.0)
        except RolldeckError as failure:
            self._handle_failure(failure)
            self._loops["control"].pause(RETRY_SECONDS)
            return
        # Avoid a busy loop when the server answers at once with nothing new.
        if control.fingerprint == after:
            self._refused_since = None
            self._loops["control"].pause(0.05)
            return
        self._apply_control(control, accepted=accepted)
        if control.desired == "running" and control.policy_step != NO_STEP:
            outstanding, members = self._worker_pool.outstanding, self._worker_pool.members
            demand = sum(member.demand_at(control.policy_step) for member in members)
            if control.admission_remaining > 2 * (outstanding + demand):
                # Each acknowledged batch frees room that the fleet does not need now.
                self._loops["control"].pause(PLENTY_SECONDS)

    def _apply_control(self, control: FleetControl, *, accepted: int) -> None:
        """Apply a command of the platform.

        `accepted` is the number of accepted fragments before the request was sent. A later count
        could include fragments that the command's admission room does not cover.
        """
        self._refused_since = None
        before, self._received = self._control, ReceivedControl(control, accepted)
        self._operator_requests.receive(control)
        if before is None or before.fingerprint != control.fingerprint:
            self._wake_conduct.set()
            self._wake_weights.set()

    def _handle_failure(self, failure: RolldeckError) -> None:
        """Shut the fleet down when the platform keeps refusing this manager."""
        if not isinstance(
            failure, NotAuthenticatedError | NotAllowedError | NotFoundError | ConflictError
        ):
            self._refused_since = None
            return
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        is_replaced = failure.code == "stale_incarnation"
        is_over = is_replaced or now - self._refused_since > RETIRE_AFTER_SECONDS
        if is_over and not self._is_stopped:
            self._events.add("fleet_retired", f"The platform refuses the manager: {failure}")
            self._stop_workers()
            self._source.retire()

    def _fetch(self) -> None:
        self._wake_weights.wait(1.0)
        self._wake_weights.clear()
        control, known = self._control, self._shared
        if control is None or control.policy_step == NO_STEP:
            return
        version = (control.epoch, control.policy_step)
        if known is not None and known.rank >= (control.weights_command, *version):
            return
        pause_seconds = TICK_SECONDS
        try:
            newer = self._source_of_weights.receive(version)
        except (InvalidMessageError, WeightsUnavailable) as problem:
            newer, pause_seconds = None, RETRY_SECONDS
            is_torn = isinstance(problem, InvalidMessageError)
            kind = "weights_torn" if is_torn else "weights_unavailable"
            # One event per version and problem; the download is retried regardless.
            if self._told_of_weights != (kind, version):
                self._told_of_weights = (kind, version)
                what = "does not match its metadata" if is_torn else "is not available"
                text = f"Version {version[1]} of epoch {version[0]} {what}: {problem}; retrying"
                self._events.add(kind, text, level="error" if is_torn else "warning")
        if newer is None:
            self._loops["weights"].pause(pause_seconds)
            return
        self._shared = self._source.share(replace(newer, order=control.weights_command))
        self._wake_conduct.set()

    def _report(self) -> None:
        self._wake_report.wait(1.0)
        self._wake_report.clear()
        self._log.trim()
        # Read the state first: the final report of a failed fleet must carry the reason.
        state, reason = self._state()
        episodes, info = self._worker_pool.pop_statistics()
        self._reporter.episodes.extend(episodes)
        for window in info:
            self._reporter.info.merge(window)
        self._reporter.events.extend(self._events.pop())
        workers = self._worker_pool.reports(self._newest_step())
        # Another fleet of this configuration would fail the same way.
        is_final = state == "failed" and any(
            member.cannot_recover for member in self._worker_pool.staying
        )
        report = self._reporter.next(state, reason, workers, is_final=is_final)
        accepted = self._worker_pool.accepted
        try:
            control = self._api.report(report)
        except RolldeckError as failure:
            self._handle_failure(failure)
            self._loops["report"].pause(RETRY_SECONDS)
            return
        self._reported_state = state
        self._reporter.delivered()
        self._worker_pool.discard_delivered(workers)
        self._apply_control(control, accepted=accepted)

    def _newest_step(self) -> int:
        return self._control.policy_step if self._control else NO_STEP

    def _state(self) -> tuple[ReportedFleetState, str]:
        """Return the state of the fleet, and the reason if it differs from the desired state."""
        if self._is_stopped:
            return "stopped", ""
        broken = [loop for loop in self._loops.values() if loop.is_broken]
        if broken:
            return "failed", f"loop {broken[0].name} gave up: {broken[0].error}"
        staying = self._worker_pool.staying
        conditions = [member.condition for member in staying if not member.is_out]
        failed, reason = conditions.count("failed"), self._obstacle
        if failed and not reason:
            causes = {member.report(0).reason for member in staying if member.is_given_up}
            first = min(causes, default="")
            reason = f"{failed} of {len(conditions)} workers were given up: {first}"
        refusals = [member.refusal for member in staying if member.refusal]
        if refusals and not reason:
            reason = f"{len(refusals)} of {len(staying)} workers: {min(refusals)}"
        desired = self._control.desired if self._control else "running"
        if not conditions and desired != "draining":
            return "paused", "every worker is cordoned"
        if conditions and failed == len(conditions):
            return "failed", reason
        if desired == "draining":
            is_over = all(member.is_idle for member in self._worker_pool.members)
            return ("drained" if is_over else "draining"), reason
        if "running" in conditions:
            return "running", reason
        if desired == "paused" and "paused" in conditions:
            return "paused", reason
        return "starting", reason


class LocalFleet:
    """Manager and workers of a fleet as threads of this process; a context manager.

    Environments still run in separate processes.
    """

    def __init__(self, settings: FleetSettings) -> None:
        self._manager = RolloutManager(settings, LocalWorkers())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.shutdown()

    def snapshot(self) -> FleetReport:
        return self._manager.snapshot()
