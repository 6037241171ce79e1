"""Causes of runs in which a part is missing: no data, no trainer, or no weights."""

from rollouts.diagnosis.rules import diagnosis as common
from rollouts.diagnosis.rules.diagnosis import MEASURED_AFTER, MOSTLY, Diagnosis, alert_if
from rollouts.diagnosis.rules.flow import AlertText, Facts
from web.rules.amounts import duration


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
