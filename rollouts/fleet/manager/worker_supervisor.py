"""Supervise one rollout worker of a fleet: restarts, commands and weights."""

import secrets
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from rolldeck.operator_requests import CordonCommand, MachineCommand, RestartCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager import admission
from rollouts.fleet.manager.worker_lifecycle import WorkerLifecycle
from rollouts.fleet.manager.worker_reports import WorkerRecord
from rollouts.fleet.manager.workers import WorkerHandle, WorkerSource, cause_of
from rollouts.fleet.process import logs
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.weights.records import Rank, WeightsOffer
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState, ending_of

SMALLER: Final = "the fleet was scaled down"
ANSWER_SECONDS: Final = 15.0
"""Time limit for an answer, after which a worker counts as hung."""
START_SECONDS: Final = 180.0
"""Time limit for each answer until the worker runs, not counting the wait for cluster resources.

A worker imports torch and creates its environments after its first answer. On a loaded machine, its
interpreter may then answer nothing for longer than :data:`ANSWER_SECONDS`.
"""
REPORT_WAITING_AFTER_SECONDS: Final = 2.0
OBSTACLE_CHECK_SECONDS: Final = 1.0
STOP_SECONDS: Final = 5.0
"""Time a worker has to end by itself."""
WEIGHTS_SECONDS: Final = 60.0
"""Time a worker has to answer an offer before the offer is repeated."""
NOTHING: Final[Rank] = (-1, -1, -2)


@dataclass(slots=True)
class Call:
    """A call of a worker, with the future of its answer."""

    future: Future[Any]
    since: float
    credits: int = 0
    rank: Rank = NOTHING


class WeightsDistributor:
    """Weight sync of one worker, with at most one call in progress."""

    def __init__(self, index: int, events: EventLog) -> None:
        """Start without an offer; `index` is the index of the worker."""
        self._index = index
        self._events = events
        self._call: Call | None = None
        self._known: Rank = NOTHING

    def reset_offers(self) -> None:
        """Forget all offers, which went to another incarnation."""
        self._call, self._known = None, NOTHING

    def offer(self, offer: WeightsOffer, handle: WorkerHandle, now: float) -> None:
        """Offer a version unless the worker has it or an offer is in progress."""
        if self._call is None and offer.rank > self._known:
            future = handle.submit("update_weights", offer)
            self._call = Call(future, now, rank=offer.rank)

    def on_offer_answer(self, now: float, *, has_started: bool) -> None:
        """Process an answer; `has_started` tells whether the worker has ever answered."""
        call = self._call
        if call is None:
            return
        if not call.future.done():
            if has_started and now - call.since > WEIGHTS_SECONDS:
                self._call = None
                self._emit_lost(call, f"no answer within {WEIGHTS_SECONDS:.0f} s")
            return
        self._call = None
        try:
            epoch, step = call.future.result()
        except Exception as error:  # noqa: BLE001 a lost worker raises many types
            self._emit_lost(call, cause_of(error))
        else:
            self._known = (call.rank[0], epoch, step)

    def _emit_lost(self, call: Call, reason: str) -> None:
        self._events.add(
            "weights_not_delivered",
            f"Worker {self._index} did not take version {call.rank[2]}: {reason}",
            level="warning",
            worker=self._index,
        )


class WorkerSupervisor:
    """Supervise the worker of one index through all its incarnations.

    No method waits for the worker, so a dead or hung worker never delays the others.
    """

    def __init__(
        self, index: int, *, settings: FleetSettings, source: WorkerSource, events: EventLog
    ) -> None:
        """Set up the supervisor; the first turn spawns the worker."""
        self.index = index
        self.record = WorkerRecord(index, events)
        self._lifecycle = WorkerLifecycle(index, events)
        self._distributor = WeightsDistributor(index, events)
        self._settings = settings
        self._items_at_once = settings.items_at_once
        self._source = source
        self._handle: WorkerHandle | None = None
        self._spawned_at = 0.0
        self._heartbeat: Call | None = None
        self._stop_call: Call | None = None
        """Request to the current incarnation to end, if it was asked to."""
        self._has_ended = False
        self.obstacle = ""
        """Reason why the cluster cannot start the worker; empty if there is none."""
        self._check_obstacle_at = 0.0

    @property
    def is_leaving(self) -> bool:
        """Whether the worker sends its remaining fragments and then ends."""
        return self._lifecycle.is_leaving

    @property
    def is_gone(self) -> bool:
        return self.is_leaving and self._has_ended

    @property
    def is_out(self) -> bool:
        """Whether the worker is cordoned and no incarnation is alive."""
        return self._lifecycle.is_cordoned and self._handle is None

    @property
    def is_winding_down(self) -> bool:
        """Whether the worker finishes the items in progress and starts no new ones."""
        return self.is_leaving or self._lifecycle.is_draining

    @property
    def incarnation(self) -> str:
        return self.record.incarnation

    @property
    def is_given_up(self) -> bool:
        """Whether the worker crashed too often, or cannot succeed, and has no successor now."""
        return self._lifecycle.is_given_up

    @property
    def cannot_recover(self) -> bool:
        """Whether the worker was given up because any successor would fail the same way."""
        return self.is_given_up and self._lifecycle.cannot_recover

    @property
    def refusal(self) -> str:
        """Reason why the newest weights received are not in use; empty if they are."""
        return self.record.state.refusal if self.record.state else ""

    @property
    def is_idle(self) -> bool:
        """Whether a drain no longer has to wait for this worker."""
        return self.is_given_up or self.is_out or self._is_empty

    @property
    def _is_empty(self) -> bool:
        state = self.record.state
        return (
            state is not None and state.is_drained and state.report.state in {"draining", "failed"}
        )

    @property
    def condition(self) -> str:
        return self.report(0).state

    @property
    def accepted(self) -> int:
        """Number of fragments the platform accepted, over all incarnations."""
        return self.record.accepted

    @property
    def outstanding(self) -> int:
        """Number of credits granted and not yet used up, including those in a pending command."""
        known = self.record.state.outstanding if self.record.state else 0
        return known + (self._heartbeat.credits if self._heartbeat else 0)

    def demand_at(self, policy_step: int) -> int:
        """Return how many more credits the worker can use now.

        The answer is 0 until the worker uses version `policy_step`. Room that opens with a new
        version is reserved for samples of that version; older samples would become stale.
        """
        state = self.record.state
        if state is None or self._heartbeat is not None or self.is_winding_down:
            return 0
        if state.report.state != "running" or state.report.active_step < policy_step:
            return 0
        return admission.demand(
            at_once=self._items_at_once,
            unspent=state.unspent,
            per_second=self.record.pace.per_second,
        )

    def turn(self, now: float) -> None:
        """Spawn the worker if it is due, and process its answers."""
        if self._handle is None:
            if self.is_leaving:
                self._has_ended = True
            elif self._lifecycle.is_due(now):
                self._spawn(now)
            return
        self._receive_state(now)
        if self._handle is None:
            return
        self._distributor.on_offer_answer(now, has_started=self.record.state is not None)
        restart_reason = self._lifecycle.restart_reason
        if self.is_leaving:
            if self._finish_winding_down(self._handle, now):
                self.kill()
                ending = ending_of(self.index, self.incarnation, self.record.state, SMALLER)
                what = f"has left; {self.outstanding} of its fragments remain to be sent"
                self.record.emit_ending("worker_left", what, ending)
        elif restart_reason is not None:
            if self._has_stopped(now):
                self._receive_final_state()
                self._remove(restart_reason, now)
        elif self._lifecycle.is_draining and self._finish_winding_down(self._handle, now):
            self._receive_final_state()
            self._remove(self._lifecycle.drain_reason, now)

    def restart(self, command: RestartCommand, now: float) -> None:
        """Replace exactly the incarnation of the command, after it has sent its items.

        A worker that was given up is started again with a fresh crash budget.
        """
        if command.incarnation != self.incarnation or self.is_winding_down or self.is_out:
            return
        if self._handle is None:
            self._lifecycle.schedule_at_once(now)
        elif self._lifecycle.restart_reason is None:
            self._lifecycle.restart_reason = command.reason or "restart requested without a reason"
            self._request_stop(self._handle, now)

    def cordon(self, command: CordonCommand | None, now: float) -> None:
        """Cordon the worker, or (with None) lift the cordon and start it with a fresh budget."""
        is_news = self._lifecycle.cordon(command, now, has_worker=self._handle is not None)
        if is_news and self._handle is None:
            self._lifecycle.schedule_at_once(now)

    def leave_machine(self, commands: Mapping[str, MachineCommand], now: float) -> None:
        """Drain the worker if its machine is cordoned; a successor starts on another machine."""
        is_ending = self.is_leaving or self._lifecycle.restart_reason is not None
        if self.record.state is not None and self._handle is not None and not is_ending:
            self._lifecycle.leave_machine(commands.get(self.record.state.report.node_id), now)

    def request_other_node(self, now: float) -> None:
        """Cancel a worker that still waits for placement and request it again elsewhere."""
        if self._handle is None or self.record.state is not None or self._handle.is_placed():
            return
        self._handle.kill()
        self._handle = self._heartbeat = None
        self._lifecycle.schedule_at_once(now)

    def leave(self, now: float) -> None:
        """Send the worker's fragments, then end it over the next turns. This is irreversible."""
        self._lifecycle.leaving_since = now

    def give(self, command: WorkerCommand, now: float) -> None:
        """Send a command to the worker unless the previous one is still unanswered."""
        if self.is_winding_down:
            command = replace(command, desired="draining", credits=0)
        is_ending = self._lifecycle.restart_reason is not None or self._stop_call is not None
        if self._handle is not None and self._heartbeat is None and not is_ending:
            future = self._handle.submit("heartbeat", command)
            self._heartbeat = Call(future, now, credits=command.credits)

    def offer_weights(self, offer: WeightsOffer, now: float) -> None:
        """Offer a version of the weights unless the worker has it or the offer is in progress."""
        if self._handle is not None:
            self._distributor.offer(offer, self._handle, now)

    def call(self, method: str, *arguments: object, may_start: bool = False) -> Future[Any] | None:
        """Call a method out of band; None if no worker has started.

        With `may_start`, a worker that is still starting is called as well.
        """
        if self._handle is None or (self.record.state is None and not may_start):
            return None
        return self._handle.submit(method, *arguments)

    def stop(self, now: float) -> Future[Any] | None:
        """Ask the worker to end; it is not restarted."""
        self._lifecycle.cancel()
        return None if self._handle is None else self._request_stop(self._handle, now)

    def kill(self) -> None:
        """End the worker at once; it is not restarted."""
        self._lifecycle.cancel()
        self._receive_final_state()
        self._has_ended = True
        handle, self._handle = self._handle, None
        if handle is not None:
            self.record.emit_lost_evaluation(self.record.state, "stopped")
            handle.kill()

    def report(self, announced_step: int) -> WorkerReport:
        """Return the worker's report, including the steps lost by earlier incarnations."""
        if self._has_ended:
            return self.record.final_report(restarts=self._lifecycle.restarts)
        return self.record.report(
            self._lifecycle,
            announced_step=announced_step,
            has_worker=self._handle is not None,
            outstanding=self.outstanding,
            obstacle=self.obstacle,
        )

    def _request_stop(self, handle: WorkerHandle, now: float) -> Future[Any]:
        """Ask the worker to send its items and end; return a future of its final state."""
        self._stop_call = Call(handle.submit("stop"), now)
        return self._stop_call.future

    def _has_stopped(self, now: float) -> bool:
        """Return whether the worker has ended or exceeded its time limit; True if not asked to."""
        call = self._stop_call
        return call is None or call.future.done() or now - call.since > STOP_SECONDS

    def _finish_winding_down(self, handle: WorkerHandle, now: float) -> bool:
        """Ask the worker to end if it is empty or overdue; return whether it has ended."""
        if self._stop_call is not None:
            return self._has_stopped(now)
        # A worker that has never answered has nothing to send.
        if self.record.state is None or self._is_empty or self._lifecycle.is_overdue(now):
            self._request_stop(handle, now)
        return False

    def _receive_final_state(self) -> None:
        call, self._stop_call = self._stop_call, None
        last: WorkerState | None = None
        if call is not None and call.future.done():
            with suppress(Exception):  # the worker is lost
                last = call.future.result()
        if last is not None:
            self.record.state = self._received(last)

    def _received(self, state: WorkerState) -> WorkerState:
        self.obstacle = ""
        return self.record.receive(state)

    def _spawn(self, now: float) -> None:
        self._lifecycle.started()
        # The manager may have been restarted as well, so a counter could repeat.
        self.record.incarnation = f"{self._settings.incarnation}-{secrets.token_hex(3)}"
        settings = WorkerSettings(
            fleet=self._settings, index=self.index, incarnation=self.incarnation
        )
        self._spawned_at, self._heartbeat = now, None
        self._distributor.reset_offers()
        try:
            self._handle = self._source.spawn(settings)
        except Exception as error:  # noqa: BLE001 clusters raise many types
            self._remove(f"did not start: {error}", now)

    def _receive_state(self, now: float) -> None:
        call = self._heartbeat
        if call is None or self._handle is None:
            return
        if not call.future.done():
            if reason := self._why_silent(call, self._handle, now):
                self._remove(reason, now)
            return
        self._heartbeat = None
        try:
            state: WorkerState = call.future.result()
        except Exception as error:  # noqa: BLE001 a lost worker raises many types
            self._remove(cause_of(error), now)
            return
        state = self._received(state)
        if state.report.state == "failed":
            self._lifecycle.failed(state, now)
            self._remove(state.report.reason, now, last=state)
            return
        self.record.pace.note(state.report.fragments_cut, now)
        self.record.state = state

    def _why_silent(self, call: Call, handle: WorkerHandle, now: float) -> str:
        """Return why the worker has timed out; empty to keep waiting."""
        owed = now - call.since
        if self.record.state is not None:
            is_starting = self.record.state.report.state == "starting"
            limit = START_SECONDS if is_starting else ANSWER_SECONDS
            return f"did not answer for {limit:.0f} s" if owed > limit else ""
        is_late = now - self._spawned_at > REPORT_WAITING_AFTER_SECONDS
        if is_late and now >= self._check_obstacle_at:
            self._check_obstacle_at = now + OBSTACLE_CHECK_SECONDS
            self.obstacle = handle.obstacle()
        if self.obstacle:
            # The worker is not at fault: its start timeout has not begun.
            call.since = now
            return ""
        return f"did not start within {START_SECONDS:.0f} s" if owed > START_SECONDS else ""

    def _remove(self, reason: str, now: float, *, last: WorkerState | None = None) -> None:
        """Drop the worker's handle and decide about a successor; `last` is a newer final state.

        Reports may be made concurrently. A worker that soon has a successor is therefore never
        marked as given up, and the event precedes that mark.
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.kill()
        lifecycle = self._lifecycle
        ending = self.record.end(reason, last)
        self._heartbeat = None
        self._distributor.reset_offers()
        self.obstacle = ""
        if self.is_leaving:
            self.record.emit_ending("worker_left", f"is lost: {ending.reason}", ending)
            return
        self._stop_call = None
        if lifecycle.restart_reason is not None:
            what = f"is replaced: {lifecycle.restart_reason}"
            self.record.emit_ending("worker_restarted", what, ending)
            lifecycle.replaced(now)
        elif lifecycle.is_draining:
            successor = "is not replaced" if lifecycle.is_cordoned else "is replaced"
            what = f"has ended and {successor}: {ending.reason}"
            self.record.emit_ending("worker_out", what, ending)
            lifecycle.replaced(now)
        else:
            wait = lifecycle.crashed(now)
            path = logs.log_of(self._settings, worker=self.index, slot=None)
            log = logs.tail(path, lines=logs.LAST_OUTPUT_LINES)
            self.record.emit_crash(ending, wait=wait, retry=lifecycle.retry_seconds, log=log)
            lifecycle.schedule_after(wait, now)
