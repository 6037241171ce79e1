"""Decisions about a fleet and its workers, without Django.

Fingerprint of a fleet's desired state, to detect changes since the fleet's last heartbeat.

It has two parts, ``<orders>.<room>``: a hash of desired state, epoch, policy step, number of
workers and operator requests, and the free space of the buffer. Fleets treat it as opaque.

Sums of numeric values of `info` over a run, and the metrics between two measurements.

Stored as ``{"sums": {name: {scope: [count, total]}}, "dropped": {problem: count}, "absent":
[name]}``.

Fleet state as proven by recent reports.

A report proves a fleet's state for some seconds. The launch of another manager proves nothing until
it has reported. Until then the state is ``unknown``, as old as the last report of any manager.

Reconciliation decisions for a fleet, from its run's desired state and the last observation.

Invariants:
    - A run that has ended keeps no manager; a run that wants a fleet has exactly one.
    - A manager is never replaced while it answers and might still report: after an outage, the
      platform finds its fleets unchanged.
    - Every decision carries its reason as text for users.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from rolldeck.fleet_wire import INFO_NAME_LENGTH, INFO_NAMES_AT_MOST, InfoDrops, InfoWindow
from rolldeck.wire import FleetReport, MachineUsage, WorkerReport
from rollouts.fleet.worker.info_values import InfoTotals
from runs.lifecycle.rules import TERMINAL, RunStatus
from web.rules.errors import Conflict, InvalidField


def fingerprint(
    *,
    desired: str,
    epoch: int,
    policy_step: int,
    admission_remaining: int,
    num_workers: int = 0,
    weights_command: int = 0,
    operator_requests: Iterable[str] = (),
) -> str:
    """Return a short text that differs whenever one of the arguments does.

    `operator_requests` are the ids of operator requests, in any stable order.
    """
    numbers = map(str, (epoch, policy_step, num_workers, weights_command))
    orders = "/".join([desired, *numbers, *operator_requests]).encode()
    return f"{hashlib.blake2s(orders, digest_size=6).hexdigest()}.{admission_remaining}"


_SERIES: Final = {
    "episode": ("mean", "count"),
    "step": ("step_mean", "step_count"),
    "missing": ("missing_share", "steps"),
}
"""Names of the mean and the count by scope."""
_PROBLEMS: Final = {
    "out_of_range": "values that are not finite, or beyond ±1e30",
    "invalid_name": f"names longer than {INFO_NAME_LENGTH} characters, or with characters other "
    "than letters, digits, spaces and _ . / -",
    "too_many_names": f"more than {INFO_NAMES_AT_MOST} names",
}


ABSENT_AFTER_STEPS: Final = 1_000
"""Env steps without a number after which a stored key of `info` is reported."""


class Added(NamedTuple):
    """Sums after a report."""

    totals: dict[str, Any]
    first_drops: list[InfoDrops]
    """Problems that occurred for the first time in the run."""
    newly_absent: dict[str, int]
    """Stored keys that have had no number in any step, at their first report; with the steps."""


def added(
    totals: Mapping[str, Any], window: InfoWindow, *, has_ended_episodes: bool = False
) -> Added:
    """Return the sums of a run after a report; only the run's first 64 names are summed.

    A stored key is reported as absent after 1,000 steps, once an episode has ended: some keys have
    a number at the last step only.
    """
    checked = InfoTotals()
    sums = {name: dict(scopes) for name, scopes in totals.get("sums", {}).items()}
    dropped = dict(totals.get("dropped", {}))
    checked.know(sums)
    checked.merge(window)
    accepted = checked.pop()
    for one in accepted.sums:
        count, total = sums.setdefault(one.name, {}).get(one.scope, (0, 0.0))
        sums[one.name][one.scope] = [count + one.count, total + one.total]
    first = [drops for drops in accepted.dropped if drops.problem not in dropped]
    for drops in accepted.dropped:
        dropped[drops.problem] = dropped.get(drops.problem, 0) + drops.count
    known = totals.get("absent", [])
    newly: dict[str, int] = {}
    for name in sorted(sums.keys() - known) if has_ended_episodes else ():
        steps, missing = sums[name].get("missing", (0, 0.0))
        if missing == steps >= ABSENT_AFTER_STEPS:
            newly[name] = steps
    found = {"sums": sums, "dropped": dropped, "absent": [*known, *newly]}
    return Added({name: part for name, part in found.items() if part}, first, newly)


def message_of(drops: InfoDrops) -> str:
    """Return the message of an event about dropped values."""
    return f"Values of info are dropped: {_PROBLEMS[drops.problem]}; the first is {drops.example!r}"


def absence_of(key: str, steps: int) -> str:
    """Return the message of the event about a stored key without numbers."""
    return f"environment.info: {key!r} has had no number in {steps:,} env steps"


def info_figures(before: Mapping[str, Any], totals: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics between the sums at a measurement and the present ones, by name."""
    figures: dict[str, float] = {}
    for name, scopes in totals.get("sums", {}).items():
        earlier = before.get("sums", {}).get(name, {})
        for scope, (count, total) in scopes.items():
            count_before, total_before = earlier.get(scope, (0, 0.0))
            if (new := count - count_before) > 0:
                mean_name, count_name = _SERIES[scope]
                figures[f"info/{name}/{mean_name}"] = (total - total_before) / new
                figures[f"info/{name}/{count_name}"] = float(new)
    for problem, count in totals.get("dropped", {}).items():
        if new := count - before.get("dropped", {}).get(problem, 0):
            figures[f"info_dropped/{problem}"] = float(new)
    return figures


UNKNOWN_AFTER: Final = timedelta(seconds=5)
"""Silence after which the last report no longer proves the present state."""
STARTS_WITHIN: Final = timedelta(seconds=45)
"""Time from the first manager's launch within which it must report."""
_SETTLED: Final = frozenset({"stopped", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReports:
    """Last reports of a fleet."""

    observed: str
    """State last reported by the manager; ``none`` before the first report."""
    has_manager: bool
    """Whether a manager was launched and has not ended, so reports are expected."""
    reported_at: datetime | None
    """Time of the last report of this manager."""
    heard_at: datetime | None
    """Time of the last report of any manager since the run was started."""
    launched_at: datetime | None

    @property
    def confirmed_at(self) -> datetime | None:
        """Time of the state's proof; None if no reports are expected, so none is needed."""
        if not self.has_manager or self.observed in _SETTLED:
            return None
        return self.heard_at or self.launched_at

    def state(self, *, now: datetime) -> str:
        """Return the proven state at `now`."""
        if self.confirmed_at is None:
            return self.observed
        if self.reported_at is not None:
            return "unknown" if now - self.reported_at > UNKNOWN_AFTER else self.observed
        is_first = self.heard_at is None
        return "starting" if is_first and now - self.confirmed_at <= STARTS_WITHIN else "unknown"

    def doubt(self, *, now: datetime) -> str:
        """Return why the state is unknown; empty if it is proven."""
        if self.state(now=now) != "unknown":
            return ""
        if self.reported_at is not None:
            return "its manager does not report"
        if self.heard_at is not None:
            return "its manager stopped reporting; another was launched and has not reported yet"
        return "its manager was launched and has not reported yet"


# Launch description of a fleet's manager.

MANAGER_PREFIX: Final = "rolldeck-"
"""Prefix of the names of all managers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Launch parameters of a manager; it requests everything else from the platform."""

    actor_name: str
    """Unique in the cluster and over time: no two managers ever share a name."""
    incarnation: str
    run: str
    config: dict[str, Any]
    """Run configuration with all defaults resolved."""
    platform_url: str
    token: str
    """Token with worker scope for this run. A secret: never logged, never in `repr`."""
    run_key: str = ""
    """See :func:`run_key`."""
    weights_directory: str = ""
    """Folder of the run's weights; empty if workers download them from the platform."""
    closed_nodes: tuple[str, ...] = ()
    """Ray ids of the cordoned nodes: neither manager nor workers are placed there."""

    def __repr__(self) -> str:
        return f"LaunchRequest({self.actor_name!r}, incarnation={self.incarnation!r})"


def run_key(*, run: str, created_at: datetime) -> str:
    """Return a globally unique name of a run, also among archived runs and other platforms.

    It identifies the processes and files that workers left behind on a machine.
    """
    return f"{run}-{created_at:%Y%m%dT%H%M%S%f}"


def actor_name(*, run: str, attempt: int) -> str:
    """Return the name of a run's manager."""
    return f"{MANAGER_PREFIX}{run}-{attempt}"


def run_of(manager: str) -> str:
    """Return the name of the run of a manager."""
    return manager.removeprefix(MANAGER_PREFIX).rpartition("-")[0]


# Limits of the pages of a list.

ROWS_AT_MOST: Final = 2000


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
FAILURES_TO_PAUSE: Final = 3
"""Launches in the window of the budget after which a run is paused if all workers fail again."""
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
    PAUSE = "pause"
    """Pause the run: every worker of its fleets fails, which worked before."""


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
    probe_at: datetime | None = None
    """Time of the next probe of the outage that has paused the run."""
    buffer_is_drained: bool = False
    drain_deadline_at: datetime | None = None


def desired_of(status: RunStatus, *, is_probed: bool = False) -> Desired:
    """Return the desired state of a fleet while its run is in `status`.

    With `is_probed`, the fleet of a paused run samples the probes of an outage, and nothing else.
    """
    if status in TERMINAL or status is RunStatus.DRAFT:
        return "stopped"
    if status is RunStatus.PAUSED and not is_probed:
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
    is_ended = not view.has_manager or view.observed in _ENDED
    if view.probe_at is not None and is_ended and not view.is_final:
        if now < view.probe_at:
            return Decision(action=Action.WAIT, reason="an outage has paused the run")
        return Decision(action=Action.LAUNCH, reason="a probe of the outage")
    if not view.has_manager:
        if view.status is RunStatus.PAUSED:
            return Decision(action=Action.WAIT, reason="paused before its fleet was launched")
        return _launch(view, "the run has no manager", now=now)
    if view.observed == "failed" and view.is_final:
        return Decision(action=Action.FAIL, reason=view.reason)
    if view.observed == "failed" and view.status is RunStatus.RUNNING:
        recent = [at for at in view.recent_launches_at if now - at < BUDGET_WINDOW]
        if len(recent) >= FAILURES_TO_PAUSE:
            return Decision(action=Action.PAUSE, reason=view.reason)
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


# Resource usage of workers and machines as reported, without invalid values.

FIELDS: Final = ("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes")
GPU_PERCENT_AT_MOST: Final = 100.0


def valid_usage(report: WorkerReport) -> dict[str, Any]:
    """Return the usage that a report contains; all None if one of its values is invalid.

    A value is invalid if it is negative or not finite, or a GPU utilization above 100 %. One
    invalid value discards the others, because they come from the same measurement.
    """
    usage: dict[str, float | None] = {name: getattr(report, name) for name in FIELDS}
    is_valid = all(_is_amount(value) for value in usage.values()) and _is_share(report.gpu_percent)
    return usage if is_valid else dict.fromkeys(FIELDS)


def is_valid_machine(usage: MachineUsage) -> bool:
    """Return whether every value of a machine's measurement is an amount, and its GPUs a share."""
    return all(_is_amount(value) for value in msgspec.structs.asdict(usage).values()) and _is_share(
        usage.gpu_percent
    )


def _is_amount(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value >= 0)


def _is_share(percent: float | None) -> bool:
    return percent is None or percent <= GPU_PERCENT_AT_MOST


# Weight sync progress of a worker, derived from two of its reports.

NONE_STEP: Final = -2
Stage = Literal["announced", "staged", "active"]


class Steps(NamedTuple):
    """The newest version that a worker knows of, holds, and acts with; -2 for none."""

    announced: int
    staged: int
    active: int


def advances(before: Steps, after: Steps) -> list[tuple[int, Stage]]:
    """Return (step, stage) for each stage that a version has newly reached.

    Only the newest version of each stage is reported. Versions in between are skipped: it is
    unknown when they arrived, or whether they did.
    """
    stages: tuple[Stage, ...] = ("announced", "staged", "active")
    return [
        (now, stage)
        for stage, was, now in zip(stages, before, after, strict=True)
        if now != was and now > NONE_STEP
    ]


class InvalidReport(InvalidField):
    """A report contradicts itself; `field` is the path of the error."""


class StaleIncarnation(Conflict):
    """The report comes from a replaced manager."""

    code = "stale_incarnation"
    title = "Another manager has taken over"


def check_report(report: FleetReport) -> None:
    """Check that a report contains each worker and slot only once.

    Raises:
        InvalidReport: If one is repeated.
    """
    _refuse_repeats("workers", "index", (worker.index for worker in report.workers))
    for position, worker in enumerate(report.workers):
        _refuse_repeats(f"workers[{position}].slots", "slot", (slot.slot for slot in worker.slots))


def env_steps_since(*, before: tuple[str, int] | None, incarnation: str, env_steps: int) -> int:
    """Return the number of env steps of a worker since its last report.

    Args:
        before: Incarnation and env steps of that report; None if there was none.
        incarnation: Present incarnation of the worker; a new one counts from zero.
        env_steps: Env steps since this incarnation began.
    """
    if before is None or before[0] != incarnation:
        return env_steps
    return max(0, env_steps - before[1])


def _refuse_repeats(where: str, field: str, numbers: Iterable[int]) -> None:
    seen: set[int] = set()
    for position, number in enumerate(numbers):
        if number in seen:
            raise InvalidReport(f"{where}[{position}].{field}", f"{number} is repeated")
        seen.add(number)
