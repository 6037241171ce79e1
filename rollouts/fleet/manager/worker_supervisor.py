"""Supervise one rollout worker of a fleet: restarts, commands and weights."""

import secrets
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from msgspec.structs import replace

from rolldeck.operator_requests import CordonCommand, MachineCommand, RestartCommand
from rolldeck.wire import EpisodeWindow, InfoWindow, WorkerReport
from rollouts.fleet.manager import admission, exit_events
from rollouts.fleet.manager.cordon import Cordon
from rollouts.fleet.manager.graceful_shutdown import GracefulShutdown
from rollouts.fleet.manager.reports import NEVER_SPAWNED
from rollouts.fleet.manager.response_timeout import Call, ResponseTimeout
from rollouts.fleet.manager.restart_policy import RestartPolicy
from rollouts.fleet.manager.supervisor_reports import (
    absent_report,
    final_report,
    with_losses,
    with_measurements,
)
from rollouts.fleet.manager.weights_distributor import WeightsDistributor
from rollouts.fleet.manager.workers import WorkerHandle, WorkerSource, cause_of
from rollouts.fleet.process import logs
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.weights.records import WeightsOffer
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState, ending_of

SMALLER: Final = "the fleet was scaled down"
LEAVE_SECONDS: Final = 60.0
"""Time a leaving worker has to send its fragments; others send the rest later."""


class WorkerSupervisor:
    """Supervise the worker of one index through all its incarnations.

    No method waits for the worker, so a dead or hung worker never delays the others.
    """

    def __init__(
        self, index: int, *, settings: FleetSettings, source: WorkerSource, events: EventLog
    ) -> None:
        """Set up the supervisor; the first turn spawns the worker."""
        self.index = index
        self.episodes: list[EpisodeWindow] = []
        """Statistics that are still to be reported."""
        self.info: list[InfoWindow] = []
        self._settings = settings
        self._items_at_once = settings.items_at_once
        self._pace = admission.Pace()
        self._source = source
        self._events = events
        self._restart_policy = RestartPolicy()
        self._cordon = Cordon(index, events)
        self._handle: WorkerHandle | None = None
        self._incarnation = NEVER_SPAWNED
        self._spawned_at = 0.0
        self._heartbeat: Call | None = None
        self._distributor = WeightsDistributor(index, events)
        self._leaving_since: float | None = None
        self._restart_reason: str | None = None
        """Why a restart was requested, if one was."""
        self._shutdown = GracefulShutdown()
        self._has_ended = False
        self._state: WorkerState | None = None
        self._measured: WorkerReport | None = None
        self._accepted_before = 0
        self._lost_steps = 0
        self._reason = ""
        self._timeout = ResponseTimeout()

    @property
    def obstacle(self) -> str:
        """Reason why the cluster cannot start the worker; empty if there is none."""
        return self._timeout.obstacle

    @property
    def is_leaving(self) -> bool:
        """Whether the worker sends its remaining fragments and then ends."""
        return self._leaving_since is not None

    @property
    def is_gone(self) -> bool:
        """Whether the worker has left the fleet."""
        return self.is_leaving and self._has_ended

    @property
    def is_out(self) -> bool:
        """Whether the worker is cordoned and no incarnation is alive."""
        return self._cordon.is_up and self._handle is None

    @property
    def is_winding_down(self) -> bool:
        """Whether the worker finishes the items in progress and starts no new ones."""
        return self.is_leaving or self._cordon.is_draining

    @property
    def incarnation(self) -> str:
        """Id of the current incarnation."""
        return self._incarnation

    @property
    def is_given_up(self) -> bool:
        """Whether the worker crashed too often and is not restarted."""
        return self._restart_policy.is_given_up

    @property
    def cannot_recover(self) -> bool:
        """Whether the worker was given up because any successor would fail the same way."""
        return self.is_given_up and self._restart_policy.cannot_recover

    @property
    def refusal(self) -> str:
        """Reason why the newest weights received are not in use; empty if they are."""
        return self._state.refusal if self._state else ""

    @property
    def is_idle(self) -> bool:
        """Whether a drain no longer has to wait for this worker."""
        return self.is_given_up or self.is_out or self._is_empty

    @property
    def _is_empty(self) -> bool:
        state = self._state
        return (
            state is not None and state.is_drained and state.report.state in {"draining", "failed"}
        )

    @property
    def condition(self) -> str:
        """State of the worker, as reported."""
        return self.report(0).state

    @property
    def accepted(self) -> int:
        """Number of fragments the platform accepted, over all incarnations."""
        return self._accepted_before + (self._state.accepted if self._state else 0)

    @property
    def outstanding(self) -> int:
        """Number of credits granted and not yet used up, including those in a pending command."""
        known = self._state.outstanding if self._state else 0
        return known + (self._heartbeat.credits if self._heartbeat else 0)

    def demand_at(self, policy_step: int) -> int:
        """Return how many more credits the worker can use now.

        The answer is 0 until the worker uses version `policy_step`. Room that opens with a new
        version is reserved for samples of that version; older samples would become stale.
        """
        if self._state is None or self._heartbeat is not None or self.is_winding_down:
            return 0
        report, unspent = self._state.report, self._state.unspent
        pace = self._pace.per_second
        if report.state != "running" or report.active_step < policy_step:
            return 0
        return admission.demand(at_once=self._items_at_once, unspent=unspent, per_second=pace)

    def turn(self, now: float) -> None:
        """Spawn the worker if it is due, and process its answers."""
        if self._handle is None:
            if self.is_leaving:
                self._has_ended = True
            elif self._restart_policy.is_due(now) and not self._cordon.is_up:
                self._spawn(now)
            return
        self._receive_state(now)
        if self._handle is not None:
            self._distributor.on_offer_answer(now, has_started=self._state is not None)
        self._end_if_due(now)

    def _end_if_due(self, now: float) -> None:
        if self._leaving_since is not None:
            if self._finish_winding_down(now, is_overdue=now - self._leaving_since > LEAVE_SECONDS):
                self.kill()
                ending = ending_of(self.index, self._incarnation, self._state, SMALLER)
                exit_events.emit_leaving(self._events, ending, waiting=self.outstanding)
            return
        if reason := self._why_to_end(now):
            self._receive_final_state()
            self._remove(reason, now)

    def _why_to_end(self, now: float) -> str:
        """Return the reason to end the worker once it has stopped or run out of time."""
        if self._restart_reason is not None:
            return self._restart_reason if self._shutdown.is_over(now) else ""
        if self._cordon.is_draining:
            is_overdue = self._cordon.is_overdue(now)
            return self._cordon.why if self._finish_winding_down(now, is_overdue=is_overdue) else ""
        return ""

    def restart(self, command: RestartCommand, now: float) -> None:
        """Replace exactly the incarnation of the command, after it has sent its items.

        A worker that was given up is started again with a fresh crash budget.
        """
        if command.incarnation != self._incarnation or self.is_winding_down or self.is_out:
            return
        if self._handle is None:
            self._restart_policy.schedule_at_once(now)
        elif self._restart_reason is None:
            self._restart_reason = command.reason or "restart requested without a reason"
            self._shutdown.request(self._handle, now)

    def cordon(self, command: CordonCommand | None, now: float) -> None:
        """Cordon the worker, or (with None) lift the cordon and start it with a fresh budget."""
        is_news = self._cordon.apply(command, now, has_worker=self._handle is not None)
        if is_news and self._handle is None:
            self._restart_policy.schedule_at_once(now)

    def leave_machine(self, commands: Mapping[str, MachineCommand], now: float) -> None:
        """Drain the worker if its machine is cordoned; a successor starts on another machine."""
        is_ending = self.is_leaving or self._restart_reason is not None
        if self._state is not None and self._handle is not None and not is_ending:
            self._cordon.vacate(commands.get(self._state.report.node_id), now)

    def request_other_node(self, now: float) -> None:
        """Cancel a worker that still waits for placement and request it again elsewhere."""
        if self._handle is None or self._state is not None or self._handle.is_placed():
            return
        self._handle.kill()
        self._handle = self._heartbeat = None
        self._restart_policy.schedule_at_once(now)

    def leave(self, now: float) -> None:
        """Send the worker's fragments, then end it over the next turns. This is irreversible."""
        self._leaving_since = now

    def give(self, command: WorkerCommand, now: float) -> None:
        """Send a command to the worker unless the previous one is still unanswered."""
        if self.is_winding_down:
            command = replace(command, desired="draining", credits=0)
        is_ending = self._restart_reason is not None or self._shutdown.is_requested
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
        if self._handle is None or (self._state is None and not may_start):
            return None
        return self._handle.submit(method, *arguments)

    def stop(self, now: float) -> Future[Any] | None:
        """Ask the worker to end; it is not restarted."""
        self._restart_policy.cancel()
        return None if self._handle is None else self._shutdown.request(self._handle, now)

    def kill(self) -> None:
        """End the worker at once; it is not restarted."""
        self._restart_policy.cancel()
        self._receive_final_state()
        self._has_ended = True
        handle, self._handle = self._handle, None
        if handle is not None:
            exit_events.emit_lost_evaluation(self._events, self.index, self._state, "stopped")
            handle.kill()

    def report(self, announced_step: int) -> WorkerReport:
        """Return the worker's report, including the steps lost by earlier incarnations."""
        report = self._present(announced_step)
        if self._has_ended:
            last = self._state.report if self._state else None
            restarts = self._restart_policy.restarts
            report = final_report(self.index, self._incarnation, last, restarts=restarts)
        else:
            report = self._cordon.on(report, has_worker=self._handle is not None)
        return with_losses(report, self._lost_steps)

    def _present(self, announced_step: int) -> WorkerReport:
        if self._state is not None and self._handle is not None:
            return replace(
                self._state.report,
                restarts=self._restart_policy.restarts,
                outstanding=max(0, self.outstanding),
            )
        return absent_report(
            self.index,
            self._incarnation,
            is_given_up=self.is_given_up,
            restarts=self._restart_policy.restarts,
            reason=self.obstacle or self._reason,
            announced_step=announced_step,
        )

    def _finish_winding_down(self, now: float, *, is_overdue: bool) -> bool:
        """Ask the worker to end if it is empty or overdue; return whether it has ended."""
        # A worker that has never answered has nothing to send.
        is_due = self._state is None or self._is_empty or is_overdue
        return self._handle is not None and self._shutdown.is_complete(
            self._handle, now, is_due=is_due
        )

    def _receive_final_state(self) -> None:
        last = self._shutdown.pop_final_state()
        if last is not None:
            self._state = self._record_state(last)

    def _spawn(self, now: float) -> None:
        self._restart_policy.cancel()
        # The manager may have been restarted as well, so a counter could repeat.
        self._incarnation = f"{self._settings.incarnation}-{secrets.token_hex(3)}"
        settings = WorkerSettings(
            fleet=self._settings, index=self.index, incarnation=self._incarnation
        )
        self._spawned_at, self._heartbeat = now, None
        self._distributor.reset_offers()
        try:
            self._handle = self._source.spawn(settings)
        except Exception as error:  # noqa: BLE001 clusters raise many types
            self._remove(f"did not start: {error}", now)

    def _receive_state(self, now: float) -> None:
        call = self._heartbeat
        if call is None:
            return
        if not call.future.done():
            self._check_silence(call, now)
            return
        self._heartbeat = None
        try:
            state: WorkerState = call.future.result()
        except Exception as error:  # noqa: BLE001 a lost worker raises many types
            self._remove(cause_of(error), now)
            return
        state = self._record_state(state)
        if state.report.state == "failed":
            self._restart_policy.failed(state, now)
            self._remove(state.report.reason, now, last=state)
            return
        self._pace.note(state.report.fragments_cut, now)
        self._state = state

    def _check_silence(self, call: Call, now: float) -> None:
        if self._handle is None:
            return
        last, since = self._state.report.state if self._state else None, self._spawned_at
        reason = self._timeout.check(call, self._handle, spawned_at=since, last=last, now=now)
        if reason:
            self._remove(reason, now)

    def _record_state(self, state: WorkerState) -> WorkerState:
        """Forward the episodes and events of an answer; return it with the latest measurements."""
        if state.report.stages or state.episodes or state.report.memory_bytes is not None:
            self._measured = state.report
        self.episodes += state.episodes
        self.info.append(state.info)
        for event in state.events:
            self._events.pass_on(replace(event, details={**event.details, "worker": self.index}))
        self._timeout.obstacle = ""
        if self._measured is not None:
            state = replace(state, report=with_measurements(state.report, self._measured))
        return state

    def _remove(self, reason: str, now: float, *, last: WorkerState | None = None) -> None:
        """Drop the worker's handle and decide about a successor; `last` is a newer final state.

        Reports may be made concurrently. A worker that will have a successor is therefore never
        marked as given up, and the event precedes that mark.
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.kill()
        last = last or self._state
        exit_events.emit_lost_evaluation(self._events, self.index, last, reason)
        self._accepted_before += last.accepted if last else 0
        ending = ending_of(self.index, self._incarnation, last, reason[:2000])
        self._lost_steps += ending.lost_steps
        self._state = self._measured = self._heartbeat = None
        self._distributor.reset_offers()
        self._reason, self._timeout.obstacle = reason, ""
        if self.is_leaving:
            exit_events.emit_loss(self._events, ending)
            return
        self._shutdown.pop_final_state()
        if self._restart_reason is not None:
            exit_events.emit_restart(self._events, ending, reason=self._restart_reason)
            self._restart_reason = None
            self._restart_policy.replaced(now)
        elif self._cordon.is_draining:
            exit_events.emit_cordon(self._events, ending, is_out=self._cordon.is_up)
            self._cordon.ended()
            self._restart_policy.replaced(now)
        else:
            wait = self._restart_policy.crashed(now)
            log = logs.last_log_lines(self._settings, worker=self.index)
            exit_events.emit_crash(self._events, ending, wait=wait, log=log)
            self._restart_policy.schedule_after(wait, now)
