"""Decide what must happen to a fleet, from what its run wants and what was last seen of it.

Invariants:
    - A run that has ended keeps no manager; a run that wants a fleet has exactly one.
    - A manager is never replaced while it answers and might still report: a platform that was
      away for a while finds its fleets as it left them.
    - Every decision carries its reason in words for the people who watch the run.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from runs.core.lifecycle import TERMINAL, RunStatus

CHECK_AFTER: Final = timedelta(seconds=8)
"""Silence after which the cluster is asked whether the manager lives."""
HUNG_AFTER: Final = timedelta(seconds=15)
"""Silence after which a manager that does not answer is replaced."""
FIRST_REPORT_WITHIN: Final = timedelta(seconds=45)
"""What a new manager that does not answer yet may take to start."""
DEAF_AFTER: Final = timedelta(seconds=120)
"""Silence after which a manager that answers, yet does not report, is replaced.

Longer than a restart of the web side may take: while nobody listens, nobody can report.
"""
LAUNCH_BUDGET: Final = 10
BUDGET_WINDOW: Final = timedelta(minutes=10)

Desired = Literal["running", "paused", "draining", "stopped"]
_ENDED: Final = frozenset({"drained", "stopped", "failed"})


class ActorState(StrEnum):
    """What the cluster says of a manager's actor."""

    MISSING = "missing"
    SILENT = "silent"
    """It exists and did not answer in time: still starting, or hung."""
    ALIVE = "alive"


class Action(StrEnum):
    """The next step that brings a fleet to what its run wants."""

    WAIT = "wait"
    CHECK = "check"
    """Ask the cluster for the actor's state, then ask :func:`after_check`."""
    LAUNCH = "launch"
    """End whatever manager there was and start a new one."""
    END = "end"
    """End the manager; the run has ended and what it left in the buffer goes."""
    LET_GO = "let go"
    """End the manager; its run drains on without it."""
    FINISH_DRAIN = "finish drain"
    CUT_DRAIN = "cut drain"
    """The deadline has passed: end the manager and drop what is left."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, and why."""

    action: Action
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What the platform knows of a run's fleet."""

    status: RunStatus
    launches_fleets: bool
    """False for outside runs: their environments come on their own."""
    has_manager: bool
    """A manager was launched and not yet ended."""
    is_external: bool = False
    """Its manager runs outside the cluster: the reconciler neither checks nor replaces it."""
    observed: str = "none"
    reason: str = ""
    """Why the fleet is as observed, in its manager's words."""
    for_good: bool = False
    """It failed for what another fleet of the run could not do better."""
    launched_at: datetime | None = None
    observed_at: datetime | None = None
    """Last report of the current manager; None while it has not reported."""
    recent_launches_at: tuple[datetime, ...] = ()
    buffer_is_drained: bool = False
    drain_deadline_at: datetime | None = None


def desired_of(status: RunStatus) -> Desired:
    """Return what a fleet should do while its run is in `status`."""
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
    return _decide_wanted(view, now=now)


def after_check(view: FleetView, actor: ActorState, *, now: datetime) -> Decision:
    """Return the next step once the cluster has said how the manager's actor is."""
    silence = _silence(view, now=now)
    patience = HUNG_AFTER if view.observed_at else FIRST_REPORT_WITHIN
    if actor is ActorState.MISSING:
        lost = "its manager is gone from the cluster"
    elif actor is ActorState.SILENT and silence >= patience:
        lost = f"its manager has not answered for {silence.total_seconds():.0f} s"
    elif silence >= DEAF_AFTER:
        lost = f"its manager answers and has not reported for {silence.total_seconds():.0f} s"
    else:
        return Decision(
            action=Action.WAIT,
            reason=f"its manager has not reported for {silence.total_seconds():.0f} s",
        )
    if view.status is RunStatus.DRAINING:
        # A new manager would only make new data, which is what draining ends.
        return Decision(action=Action.LET_GO, reason=lost)
    return _launch(view, lost, now=now)


def _decide_draining(view: FleetView, *, now: datetime) -> Decision:
    if view.drain_deadline_at is not None and now >= view.drain_deadline_at:
        return Decision(action=Action.CUT_DRAIN, reason="the deadline of the drain has passed")
    fleet_is_done = not view.has_manager or view.observed in _ENDED
    if fleet_is_done and view.buffer_is_drained:
        return Decision(action=Action.FINISH_DRAIN, reason="fleet and buffer are drained")
    if not view.has_manager or fleet_is_done:
        return Decision(action=Action.WAIT)
    silence = _silence(view, now=now)
    if view.is_external and silence >= DEAF_AFTER:
        return Decision(
            action=Action.LET_GO,
            reason=f"its manager has not reported for {silence.total_seconds():.0f} s",
        )
    if not view.is_external and silence >= CHECK_AFTER:
        return Decision(action=Action.CHECK)
    return Decision(action=Action.WAIT)


def _decide_wanted(view: FleetView, *, now: datetime) -> Decision:
    if view.status is RunStatus.QUEUED:
        # Whatever manager is left belongs to an earlier start of the run, and so does what
        # that start spent of the budget.
        return Decision(action=Action.LAUNCH, reason="the run was started")
    if view.is_external:
        return Decision(action=Action.WAIT)
    if not view.has_manager:
        if view.status is RunStatus.PAUSED:
            return Decision(action=Action.WAIT, reason="paused before its fleet was launched")
        return _launch(view, "the run has no manager", now=now)
    if view.observed == "failed" and view.for_good:
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
            reason=f"{len(recent)} launches within {minutes:.0f} minutes; last: {reason}",
        )
    return Decision(action=Action.LAUNCH, reason=reason)


def _silence(view: FleetView, *, now: datetime) -> timedelta:
    heard_at = view.observed_at or view.launched_at
    return now - heard_at if heard_at else timedelta.max
