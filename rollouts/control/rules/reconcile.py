"""Reconciliation decisions for a fleet, from its run's desired state and the last observation.

Invariants:
    - A run that has ended keeps no manager; a run that wants a fleet has exactly one.
    - A manager is never replaced while it answers and might still report: after an outage, the
      platform finds its fleets unchanged.
    - Every decision carries its reason as text for users.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from runs.lifecycle.rules.lifecycle import TERMINAL, RunStatus

CHECK_AFTER: Final = timedelta(seconds=8)
"""Silence after which the manager's actor is looked up on the cluster."""
HUNG_AFTER: Final = timedelta(seconds=15)
"""Silence after which a manager that does not answer is replaced."""
FIRST_REPORT_WITHIN: Final = timedelta(seconds=45)
"""Time that a new manager may take to start before it answers."""
NOT_REPORTING_AFTER: Final = timedelta(seconds=120)
"""Silence after which a manager that answers but does not report is replaced.

Longer than a restart of the web server may take: managers cannot report during a restart.
"""
LAUNCH_BUDGET: Final = 10
BUDGET_WINDOW: Final = timedelta(minutes=10)

Desired = Literal["running", "paused", "draining", "stopped"]
_ENDED: Final = frozenset({"drained", "stopped", "failed"})


class ActorState(StrEnum):
    """State of a manager's actor on the cluster."""

    MISSING = "missing"
    SILENT = "silent"
    """The actor exists and did not answer in time: it is starting, or hangs."""
    ALIVE = "alive"


class Action(StrEnum):
    """The next step that brings a fleet to its desired state."""

    WAIT = "wait"
    CHECK = "check"
    """Look up the actor's state, then call :func:`after_check`."""
    LAUNCH = "launch"
    """End any existing manager and start a new one."""
    END = "end"
    """End the manager: the run has ended, and its buffered data is dropped."""
    ABANDON = "abandon"
    """End the manager; the run drains without it."""
    FINISH_DRAIN = "finish drain"
    END_DRAIN = "end drain"
    """The deadline has passed: end the manager and drop the remaining data."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A next step and its reason."""

    action: Action
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The platform's view of a run's fleet."""

    status: RunStatus
    launches_fleets: bool
    """False for outside runs, whose environments are not managed by the platform."""
    has_manager: bool
    """Whether a manager was launched and has not ended."""
    observed: str = "none"
    reason: str = ""
    """Reason of the observed state, as reported by the manager."""
    is_final: bool = False
    """Whether the fleet failed for a reason that another fleet of the run would share."""
    launched_at: datetime | None = None
    observed_at: datetime | None = None
    """Time of the current manager's last report; None before the first."""
    recent_launches_at: tuple[datetime, ...] = ()
    buffer_is_drained: bool = False
    drain_deadline_at: datetime | None = None


def desired_of(status: RunStatus) -> Desired:
    """Return the desired state of a fleet while its run is in `status`."""
    if status in TERMINAL or status is RunStatus.DRAFT:
        return "stopped"
    if status is RunStatus.PAUSED:
        return "paused"
    if status is RunStatus.DRAINING:
        return "draining"
    return "running"


def decide(view: FleetView, *, now: datetime) -> Decision:
    """Return the next step for a fleet."""
    if desired_of(view.status) == "stopped":
        if view.has_manager:
            return Decision(action=Action.END, reason=f"the run is {view.status}")
        return Decision(action=Action.WAIT)
    if view.status is RunStatus.DRAINING:
        return _decide_draining(view, now=now)
    if not view.launches_fleets:
        return Decision(action=Action.WAIT)
    return _decide_running(view, now=now)


def after_check(view: FleetView, actor: ActorState, *, now: datetime) -> Decision:
    """Return the next step, given the state of the manager's actor."""
    silence = _silence(view, now=now)
    silence_limit = HUNG_AFTER if view.observed_at else FIRST_REPORT_WITHIN
    if actor is ActorState.MISSING:
        lost = "its manager is gone from the cluster"
    elif actor is ActorState.SILENT and silence >= silence_limit:
        lost = f"its manager has not answered for {silence.total_seconds():.0f} s"
    elif silence >= NOT_REPORTING_AFTER:
        lost = f"its manager answers but has not reported for {silence.total_seconds():.0f} s"
    else:
        return Decision(
            action=Action.WAIT,
            reason=f"its manager has not reported for {silence.total_seconds():.0f} s",
        )
    if view.status is RunStatus.DRAINING:
        # A new manager would only produce new data, which draining must prevent.
        return Decision(action=Action.ABANDON, reason=lost)
    return _launch(view, lost, now=now)


def _decide_draining(view: FleetView, *, now: datetime) -> Decision:
    if view.drain_deadline_at is not None and now >= view.drain_deadline_at:
        return Decision(action=Action.END_DRAIN, reason="the drain deadline has passed")
    fleet_is_done = not view.has_manager or view.observed in _ENDED
    if fleet_is_done and view.buffer_is_drained:
        return Decision(action=Action.FINISH_DRAIN, reason="fleet and buffer are drained")
    if not view.has_manager or fleet_is_done:
        return Decision(action=Action.WAIT)
    if _silence(view, now=now) >= CHECK_AFTER:
        return Decision(action=Action.CHECK)
    return Decision(action=Action.WAIT)


def _decide_running(view: FleetView, *, now: datetime) -> Decision:
    if view.status is RunStatus.QUEUED:
        # Any remaining manager, and the budget spent so far, belong to an earlier start of the run.
        return Decision(action=Action.LAUNCH, reason="the run was started")
    if not view.has_manager:
        if view.status is RunStatus.PAUSED:
            return Decision(action=Action.WAIT, reason="paused before its fleet was launched")
        return _launch(view, "the run has no manager", now=now)
    if view.observed == "failed" and view.is_final:
        return Decision(action=Action.FAIL, reason=view.reason)
    if view.observed in _ENDED:
        return _launch(view, f"its manager reported that the fleet is {view.observed}", now=now)
    if _silence(view, now=now) >= CHECK_AFTER:
        return Decision(action=Action.CHECK)
    return Decision(action=Action.WAIT)


def _launch(view: FleetView, reason: str, *, now: datetime) -> Decision:
    recent = [at for at in view.recent_launches_at if now - at < BUDGET_WINDOW]
    if len(recent) >= LAUNCH_BUDGET:
        minutes = BUDGET_WINDOW.total_seconds() / 60
        return Decision(
            action=Action.FAIL,
            reason=f"{len(recent)} launches within {minutes:.0f} min; last: {reason}",
        )
    return Decision(action=Action.LAUNCH, reason=reason)


def _silence(view: FleetView, *, now: datetime) -> timedelta:
    heard_at = view.observed_at or view.launched_at
    return now - heard_at if heard_at else timedelta.max
