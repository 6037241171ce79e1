"""Diagnosis of runs whose throughput is not meaningful.

Covers runs that ended or are paused or draining, fleets that start or do not report, and missing
weights. Each of these explains numbers that would otherwise look like a bottleneck.
"""

from typing import Final

from rollouts.diagnosis.rules import phrases
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts
from web.rules.amounts import duration, percent

MOSTLY: Final = 0.5

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
    """Diagnose a run that has not begun, or has ended."""
    if facts.status not in _BEFORE_AND_AFTER:
        return None
    summary, change = _BEFORE_AND_AFTER[facts.status]
    return Diagnosis(
        kind="not_running", summary=summary, evidence=_given(facts.reason), change=change
    )


def paused(facts: Facts) -> Diagnosis | None:
    """Diagnose a paused run."""
    if facts.status != "paused":
        return None
    return Diagnosis(
        kind="paused",
        summary="The run is paused: no data is generated, and queued data is still served.",
        evidence=[*_given(facts.reason), f"{facts.queued:,} {facts.unit} are queued"],
        change="Resume the run to continue.",
    )


def without_jobs(facts: Facts) -> Diagnosis | None:
    """Diagnose a server whose background jobs do not run: nothing starts and nothing recovers."""
    if not facts.jobs_problem:
        return None
    return Diagnosis(
        kind="jobs_down",
        summary=f"The server's background jobs do not run: {facts.jobs_problem}.",
        evidence=list(facts.jobs_evidence),
        change="Start the jobs and the scheduler, or read their logs; Cluster shows the reason of "
        "the last exit. Until then no fleet starts or restarts, and leases do not expire.",
    )


def unheard(facts: Facts) -> Diagnosis | None:
    """Diagnose a run whose fleet does not report: its last report proves nothing about now."""
    if facts.kind == "outside" or facts.fleet != "unknown":
        return None
    since = "" if facts.silent_seconds is None else f" for {duration(facts.silent_seconds)}"
    return Diagnosis(
        kind="fleet_unknown",
        summary=f"No reports from the fleet{since}: its state is unknown.",
        evidence=_given(facts.fleet_reason),
        change="Wait: the platform checks the fleet's manager on the cluster and "
        "launches a new one if it is gone. The events on Logs show the result.",
    )


def starting(facts: Facts) -> Diagnosis | None:
    """Diagnose a run of which no worker is up yet."""
    is_coming = facts.status in {"queued", "starting"} or facts.fleet in {"none", "starting"}
    if facts.kind == "outside" or facts.workers or not is_coming or facts.status == "draining":
        return None
    if facts.fleet_reason:
        return Diagnosis(
            kind="fleet_starting",
            summary="The fleet cannot start yet.",
            evidence=[facts.fleet_reason],
            change="Fix the cause that Pipeline lists; the platform retries automatically.",
        )
    workers = facts.workers_wanted
    return Diagnosis(
        kind="fleet_starting",
        summary=f"The fleet is starting: 0 of {workers:,} workers run."
        if workers > 1
        else "The fleet is starting.",
        evidence=_coming(facts),
        change="Wait for the workers to start. If none starts within a few minutes, read the "
        "manager's log on Fleet.",
    )


def without_workers(facts: Facts) -> Diagnosis | None:
    """Diagnose a fleet that reports, but has no running worker."""
    is_wanted = facts.status == "running" or facts.fleet == "running"
    if facts.kind == "outside" or facts.workers or not is_wanted or facts.status == "draining":
        return None
    return Diagnosis(
        kind="no_workers",
        summary="No worker of the fleet is running.",
        evidence=_coming(facts),
        change="Fleet shows why each worker is down. Workers that may recover are "
        "restarted automatically.",
    )


def without_weights(facts: Facts) -> Diagnosis | None:
    """Diagnose a fleet that has no weights."""
    waiting = facts.shares.get("waiting_weights", 0.0)
    if waiting < MOSTLY or facts.kind == "outside":
        return None
    evidence = [f"workers wait for weights {percent(waiting)} of their time"]
    if facts.version is None:
        return Diagnosis(
            kind="no_trainer",
            stage="train",
            summary="No trainer has published weights yet, so workers cannot act.",
            evidence=evidence,
            change="Start the trainer: it publishes its initial weights.",
        )
    if not facts.workers_without_weights:
        return None
    return Diagnosis(
        kind="no_weights",
        stage="infer",
        summary="Weights are published, but workers have not received them.",
        evidence=[*evidence, f"the newest version is {facts.version}"],
        change="Open Weights to see which worker lacks the version, and why.",
    )


def draining(facts: Facts) -> Diagnosis | None:
    """Diagnose a draining run: queued data is served, and nothing needs to be faster."""
    is_untaken = facts.trainer_waits is None and facts.batches_waiting >= 1
    if facts.status != "draining" or is_untaken:
        return None
    return Diagnosis(
        kind="draining",
        summary="The run is draining: open episodes finish, and queued data is served.",
        evidence=[f"{facts.queued:,} {facts.unit} are queued", *_unsent(facts)],
        change="Wait: the run ends automatically. Stop sets a deadline.",
    )


def refused(facts: Facts) -> Diagnosis | None:
    """Diagnose a run that refuses pushes."""
    if not facts.refused:
        return None
    lost = "fragments" if facts.unit == "fragments" else "groups"
    arrives = (
        "" if facts.arriving is None else f" {facts.arriving:.3g} {facts.unit}/s are accepted."
    )
    return Diagnosis(
        kind="pushes_refused",
        stage="push",
        summary=f"Pushes are refused: {facts.refused_groups:,} {lost} are lost.{arrives}",
        evidence=list(facts.refused),
        change=" ".join(facts.refusal_advice),
    )


def dropped_on_arrival(facts: Facts) -> Diagnosis | None:
    """Diagnose a run that accepts groups and drops many of them at once."""
    if not facts.arrival_drops:
        return None
    return Diagnosis(
        kind="data_dropped",
        stage="push",
        summary=f"{facts.arrival_drops[0].upper()}{facts.arrival_drops[1:]}.",
        evidence=[phrases.arriving(facts)],
        change=facts.arrival_remedy,
    )


def without_trainer(facts: Facts) -> Diagnosis | None:
    """Diagnose an outside run whose environments wait for a trainer."""
    if not facts.waiting_environments:
        return None
    return Diagnosis(
        kind="no_trainer",
        stage="train",
        summary="Environments wait for a trainer: none has registered and requested a batch.",
        evidence=[f"{name} waits" for name in facts.waiting_environments],
        change="Start the trainer. Environments register within seconds after its first request "
        "for a batch.",
    )


def silent(facts: Facts) -> Diagnosis | None:
    """Diagnose a run without any activity."""
    is_silent = not facts.shares and facts.arriving is None and facts.trainer_waits is None
    if not is_silent or facts.queued:
        return None
    return Diagnosis(
        kind="no_activity",
        summary="No activity in the last minute.",
        evidence=["no data arrived", "no trainer held a batch"],
        change="Start the trainer, then the environments; API & tokens lists the commands."
        if facts.kind == "outside"
        else "Start the trainer, or check the log of a worker on Fleet.",
    )


def _given(reason: str) -> list[str]:
    return [reason] if reason else []


def _coming(facts: Facts) -> list[str]:
    counts = [(facts.workers_coming, "being started"), (facts.workers_down, "failed")]
    return [f"{count:,} {what}" for count, what in counts if count]


def _unsent(facts: Facts) -> list[str]:
    return [f"workers still have {facts.to_send:,} to send"] if facts.to_send else []
