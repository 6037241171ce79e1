"""Causes that the state of the run, of its fleet or of the server explains."""

from typing import Final

from rollouts.diagnosis.rules import diagnosis as common
from rollouts.diagnosis.rules.diagnosis import LATE_SECONDS, Diagnosis, alert_if
from rollouts.diagnosis.rules.flow import Facts
from web.rules.amounts import duration

_BEFORE_AND_AFTER: Final = {
    "draft": ("The run is a draft and processes no data.", "Start it."),
    "completed": ("The run is completed and processes no data.", ""),
    "stopped": (
        "The run is stopped and processes no data.",
        "Start it again to continue; its history is kept.",
    ),
    "failed": (
        "The run has failed and processes no data.",
        "Fix the cause that Pipeline lists, then start it again; its history is kept.",
    ),
}


def over(facts: Facts) -> Diagnosis | None:
    """Name a run that has not begun, or has ended."""
    if facts.status not in _BEFORE_AND_AFTER:
        return None
    summary, change = _BEFORE_AND_AFTER[facts.status]
    return Diagnosis(
        kind="not_running", summary=summary, evidence=_given(facts.reason), change=change
    )


def paused(facts: Facts) -> Diagnosis | None:
    """Name a paused run."""
    if facts.status != "paused":
        return None
    return Diagnosis(
        kind="not_running",
        summary="The run is paused: no data is generated, and queued data is still served.",
        evidence=[*_given(facts.reason), f"{facts.queued:,} {facts.unit} are queued"],
        change="Resume the run to continue.",
    )


def draining(facts: Facts) -> Diagnosis | None:
    """Name a draining run: queued data is served, and nothing needs to be faster."""
    is_untaken = facts.trainer_waits is None and facts.batches_waiting >= 1
    if facts.status != "draining" or is_untaken:
        return None
    unsent = [f"workers still have {facts.to_send:,} to send"] if facts.to_send else []
    return Diagnosis(
        kind="not_running",
        summary="The run is draining: open episodes finish, and queued data is served.",
        evidence=[f"{facts.queued:,} {facts.unit} are queued", *unsent],
        change="Wait: the run ends automatically. Stop sets a deadline.",
    )


def without_jobs(facts: Facts) -> Diagnosis | None:
    """Name a server whose background jobs do not run: nothing starts and nothing recovers."""
    if not facts.jobs_problem:
        return None
    return Diagnosis(
        kind="jobs_down",
        summary=f"The server's background jobs do not run: {facts.jobs_problem}.",
        evidence=list(facts.jobs_evidence),
        change="Start the jobs and the scheduler, or read their logs; Cluster shows the reason of "
        "the last exit. Until then no fleet starts or restarts, and leases do not expire.",
    )


def silent_fleet(facts: Facts) -> Diagnosis | None:
    """Name a fleet that does not report: its last report proves nothing about now."""
    if facts.kind == "outside" or facts.fleet != "unknown":
        return None
    silent = facts.silent_seconds
    since = "" if silent is None else f" for {duration(silent)}"
    return Diagnosis(
        kind="fleet_silent",
        summary=f"No reports from the fleet{since}: its state is unknown.",
        evidence=_given(facts.fleet_reason),
        change="Wait: the platform checks the fleet's manager on the cluster and "
        "launches a new one if it is gone. The events on Logs show the result.",
        alerts=alert_if(
            facts.is_silence_due,
            f"the fleet of {facts.run} has not reported for more than {LATE_SECONDS:.0f} s",
        ),
    )


def starting(facts: Facts) -> Diagnosis | None:
    """Name a run of which no worker is up yet, or whose trainer has not started it."""
    is_waiting = facts.status in {"queued", "starting"}
    is_late = is_waiting and (facts.status_seconds or 0.0) > common.START_SECONDS
    late = f"more than {common.minutes(common.START_SECONDS)}"
    if facts.kind == "outside":
        return _waiting(facts, is_late=is_late, late=late) if is_waiting else None
    is_coming = is_waiting or facts.fleet in {"none", "starting"}
    if facts.workers or not is_coming or facts.status == "draining":
        return None
    reason = facts.reason or facts.refused_weights
    alerts = alert_if(
        is_late,
        f"{facts.run} has been {facts.status} for {late}" + (f": {reason}" if reason else ""),
    )
    if facts.fleet_reason:
        return Diagnosis(
            kind="run_not_starting",
            summary="The fleet cannot start yet.",
            evidence=[facts.fleet_reason],
            change="Fix the cause that Pipeline lists; the platform retries automatically.",
            alerts=alerts,
        )
    workers = facts.workers_wanted
    return Diagnosis(
        kind="run_not_starting",
        summary=f"The fleet is starting: 0 of {workers:,} workers run."
        if workers > 1
        else "The fleet is starting.",
        evidence=common.coming(facts),
        change="Wait for the workers to start. If none starts within a few minutes, read the "
        "manager's log on Fleet.",
        alerts=alerts,
    )


def _waiting(facts: Facts, *, is_late: bool, late: str) -> Diagnosis:
    names = ", ".join(facts.waiting_environments)
    return Diagnosis(
        kind="run_not_starting",
        stage="train",
        summary="Environments wait for a trainer: none has registered and requested a batch."
        if names
        else "The run waits for its trainer.",
        evidence=[f"{name} waits" for name in facts.waiting_environments],
        change="Start the trainer. Environments register within seconds after its first request "
        "for a batch.",
        alerts=alert_if(
            is_late,
            f"{facts.run} has waited for its trainer for {late}"
            + (f"; waiting environments: {names}" if names else ""),
        ),
    )


def _given(reason: str) -> list[str]:
    return [reason] if reason else []
