"""Causes that a state explains: of the run, of its fleet, of the server, or of a missing part."""

from typing import Final

from rollouts.diagnosis.rules import diagnosis as common
from rollouts.diagnosis.rules.diagnosis import (
    LATE_SECONDS,
    MEASURED_AFTER,
    MOSTLY,
    Diagnosis,
    alert_if,
)
from rollouts.diagnosis.rules.flow import AlertText, Facts
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
    change = "Resume the run to continue."
    if facts.is_probed:
        change = "Repair the part that the error names: a probe that succeeds resumes the run."
    return Diagnosis(
        kind="not_running",
        summary="The run is paused: no data is generated, and queued data is still served.",
        evidence=[*_given(facts.reason), f"{facts.queued:,} {facts.unit} are queued"],
        change=change,
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
        if not is_waiting:
            return None
        names = ", ".join(facts.waiting_environments)
        return Diagnosis(
            kind="run_not_starting",
            stage="train",
            summary="Environments wait for a trainer: none has registered and requested a batch."
            if names
            else "The run waits for its trainer.",
            evidence=[f"{name} waits" for name in facts.waiting_environments],
            change="Start the trainer. Environments register within seconds after its first "
            "request for a batch.",
            alerts=alert_if(
                is_late,
                f"{facts.run} has waited for its trainer for {late}"
                + (f"; waiting environments: {names}" if names else ""),
            ),
        )
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


def _given(reason: str) -> list[str]:
    return [reason] if reason else []


def measuring(facts: Facts) -> Diagnosis | None:
    """Name a run that has just changed its status: nothing is measured yet."""
    if facts.status_seconds is None or facts.status_seconds >= MEASURED_AFTER:
        return None
    return Diagnosis(
        kind="no_bottleneck",
        summary=f"Started or resumed {duration(facts.status_seconds)} ago, measuring.",
        evidence=[f"measurements begin {duration(MEASURED_AFTER)} after a change of the status"],
    )


def idle_environments(facts: Facts) -> Diagnosis | None:
    """Name environments that ask for their status but push nothing."""
    is_short = facts.batch_size is None or facts.queued < facts.batch_size
    is_idle = facts.arriving is None and facts.holding_seconds is None and is_short
    if facts.kind != "outside" or not is_idle or not facts.idle_environments:
        return None
    queue = "is empty" if not facts.queued else f"holds {facts.queued:,} {facts.unit}"
    asked = [f"the trainer asks for batches, the queue {queue}"] if facts.is_asked else []
    return Diagnosis(
        kind="run_stalled",
        stage="push",
        summary="Environments ask for their status, but push nothing.",
        evidence=[*facts.idle_environments, *asked],
        change="Read the log of the environment: its rollouts may fail, or the inference server "
        "refuses its requests.",
        alerts=_no_data(facts),
    )


def no_environments(facts: Facts) -> Diagnosis | None:
    """Name a trainer that asks for batches that no environment fills."""
    is_waiting = facts.is_asked and facts.trainer_waits is None and facts.arriving is None
    if facts.kind != "outside" or facts.queued or facts.environments or not is_waiting:
        return None
    return Diagnosis(
        kind="run_stalled",
        stage="push",
        summary="The trainer asks for batches, and no environment pushes data.",
        evidence=["the queue is empty", "no environment has made a call in the last 2 min"],
        change="Start the environments; API & tokens lists the commands.",
        alerts=_no_data(facts),
    )


def no_activity(facts: Facts) -> Diagnosis | None:
    """Name a run without any activity."""
    is_silent = not facts.shares and facts.arriving is None and facts.trainer_waits is None
    if not is_silent or facts.queued:
        return None
    return Diagnosis(
        kind="run_stalled",
        summary="No activity in the last minute.",
        evidence=["no data arrived", "no trainer held a batch"],
        change="Start the trainer, then the environments; API & tokens lists the commands."
        if facts.kind == "outside"
        else "Start the trainer, or check the log of a worker on Fleet.",
        alerts=_no_data(facts),
    )


def weights_unpublished(facts: Facts) -> Diagnosis | None:
    """Name a deadlock: workers need newer weights to continue, and no trainer trains."""
    is_idle = facts.holding_seconds is None and facts.batches_waiting < 1
    is_late = (facts.version_age_seconds or 0.0) >= common.overdue(facts.version_interval_seconds)
    is_held = facts.held_back >= MOSTLY
    if facts.kind == "outside" or not (is_idle and is_late and is_held):
        return None
    return Diagnosis(
        kind="weights_late",
        stage="train",
        summary=f"No weights were published for "
        f"{duration(facts.version_age_seconds or 0.0)}, and {common.limit(facts)} pauses the "
        "workers until the next version.",
        evidence=[
            common.held_back(facts),
            f"the newest version is {facts.version}",
            f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size or 0:,}",
        ],
        change=f"Publish weights after each train step, or raise {common.limit_setting(facts)}.",
        alerts=alert_if(
            facts.is_stalled_for_data,
            f"workers of {facts.run} wait for newer weights, and no trainer publishes any",
        ),
    )


def untaken(facts: Facts) -> Diagnosis | None:
    """Name a missing trainer, or a batch that is not complete."""
    if facts.trainer_waits is not None:
        return None
    if facts.batch_size is None:
        return Diagnosis(
            kind="training_stalled",
            stage="train",
            summary="The run has no batch size, so no batch can be formed.",
            evidence=[common.queued(facts)],
            change="Register a trainer with a batch size, or set `batch_size` on the run.",
            alerts=_no_lease(facts),
        )
    if facts.queued < facts.batch_size:
        return Diagnosis(
            kind="run_stalled",
            stage="queue",
            summary=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
            f"{facts.unit}.",
            evidence=[common.arriving(facts), "no batch was leased in the last minute"],
            alerts=_no_data(facts),
        )
    is_held = facts.is_limited or facts.held_back >= MOSTLY
    pause = common.pause(facts, is_held=is_held)
    return Diagnosis(
        kind="training_stalled",
        stage="train",
        summary=f"No trainer leases the queued batches.{pause}",
        evidence=[common.queued(facts), "no batch was leased in the last minute"],
        change="Start the trainer, or check its output: it holds no batch."
        + (f" The {common.producers(facts)} then resume automatically." if pause else ""),
        alerts=_no_lease(facts),
    )


def trainer_stuck(facts: Facts) -> Diagnosis | None:
    """Name a trainer that holds one batch for long."""
    held, limit = facts.holding_seconds or 0.0, common.overdue(facts.train_seconds)
    leases = (facts.since_lease_seconds or 0.0) < limit
    if leases or held < limit or facts.trainer_waits is None:
        return None
    return Diagnosis(
        kind="training_stalled",
        stage="train",
        summary=f"The trainer has held one batch for {duration(held)} (limit {duration(limit)}).",
        evidence=[
            f"no batch was leased for {duration(facts.since_lease_seconds or 0.0)}",
            *common.waiting_batches(facts),
        ],
        change="If train steps should be shorter, check the trainer's output: it may hang. When "
        "the lease expires, the next trainer that asks gets the batch.",
    )


def _no_data(facts: Facts) -> list[AlertText]:
    return alert_if(
        facts.status == "running" and facts.is_stalled_for_data,
        f"{facts.run} has received no items for more than {common.minutes(facts.stalled_seconds)}",
    )


def _no_lease(facts: Facts) -> list[AlertText]:
    is_due = 0 < facts.stalled_seconds < facts.lease_seconds and facts.holding_seconds is None
    return alert_if(
        facts.status == "running" and is_due,
        f"{facts.run} has a queued batch, but no trainer has leased one for more than "
        f"{common.minutes(facts.stalled_seconds)}",
    )
