"""Judge runs whose pace says nothing yet, or nothing any more.

One that is over or paused, whose fleet starts or is silent, that has no weights or drains: each of
these explains numbers that would else look like a bottleneck.
"""

from typing import Final

from rollouts.diagnosis.rules.diagnosis import Verdict
from rollouts.diagnosis.rules.flow import Facts
from runs.core.amounts import duration, percent

MOSTLY: Final = 0.5

_BEFORE_AND_AFTER: Final = {
    "draft": ("The run is a draft: nothing has to move.", "Start it."),
    "completed": ("The run is completed: nothing has to move.", ""),
    "stopped": (
        "The run is stopped: nothing has to move.",
        "Start it again to go on; its history stays.",
    ),
    "failed": (
        "The run has failed, so nothing moves.",
        "Mend what the reason names, then start it again; its history stays.",
    ),
}


def over(facts: Facts) -> Verdict | None:
    """Judge a run that has not begun, or has ended."""
    if facts.status not in _BEFORE_AND_AFTER:
        return None
    sentence, change = _BEFORE_AND_AFTER[facts.status]
    return Verdict(sentence=sentence, proof=_given(facts.reason), change=change)


def paused(facts: Facts) -> Verdict | None:
    """Judge a run that somebody has paused."""
    if facts.status != "paused":
        return None
    return Verdict(
        sentence="The run is paused: nothing new is generated, and what was made is still served.",
        proof=[*_given(facts.reason), f"{facts.queued:,} {facts.unit} wait for a trainer"],
        change="Resume it to go on.",
    )


def unheard(facts: Facts) -> Verdict | None:
    """Judge a run whose fleet is silent: what it said last is no proof of what it does now."""
    if facts.kind == "outside" or facts.fleet != "unknown":
        return None
    since = "" if facts.silent_seconds is None else f" for {duration(facts.silent_seconds)}"
    return Verdict(
        sentence=f"The fleet has not been heard of{since}: nobody can tell what it does.",
        proof=_given(facts.fleet_reason),
        change="Nothing at first: the platform asks the cluster for the fleet's manager and "
        "launches another one where it is gone. The events on Logs say what it found.",
    )


def starting(facts: Facts) -> Verdict | None:
    """Judge a run of which no worker is up yet."""
    is_coming = facts.status in {"queued", "starting"} or facts.fleet in {"none", "starting"}
    if facts.kind == "outside" or facts.workers or not is_coming or facts.status == "draining":
        return None
    if facts.fleet_reason:
        return Verdict(
            sentence="The fleet does not come up yet.",
            proof=[facts.fleet_reason],
            change="Mend what the reason names; the platform tries again by itself.",
        )
    wanted = facts.workers_wanted
    return Verdict(
        sentence=f"The fleet is starting: none of its {wanted:,} workers runs yet."
        if wanted > 1
        else "The fleet is starting.",
        proof=_coming(facts),
        change="Nothing: workers appear by themselves. If none does within a few minutes, the "
        "manager's log on Fleet says why.",
    )


def without_workers(facts: Facts) -> Verdict | None:
    """Judge a fleet that speaks, and none of whose workers works."""
    is_wanted = facts.status == "running" or facts.fleet == "running"
    if facts.kind == "outside" or facts.workers or not is_wanted or facts.status == "draining":
        return None
    return Verdict(
        sentence="No worker of the fleet runs.",
        proof=_coming(facts),
        change="Each row of Fleet says why its worker is down; those that may come back are "
        "started again by themselves.",
    )


def without_weights(facts: Facts) -> Verdict | None:
    """Judge a fleet that has nothing to act with."""
    waiting = facts.shares.get("waiting_weights", 0.0)
    if waiting < MOSTLY or facts.kind == "outside":
        return None
    proof = [f"workers wait for weights {percent(waiting)} of their time"]
    if facts.version is None:
        return Verdict(
            stage="train",
            sentence="No trainer has published weights yet, so workers have nothing to act with.",
            proof=proof,
            change="Start the trainer: it publishes the weights it begins with.",
        )
    return Verdict(
        stage="infer",
        sentence="Weights are published, and workers have none to act with.",
        proof=[*proof, f"the newest version is {facts.version}"],
        change="Look at Weights: which worker did not get the version, and why.",
    )


def draining(facts: Facts) -> Verdict | None:
    """Judge a run that ends: what waits is served, and nothing has to be made faster."""
    is_untaken = facts.trainer_waits is None and facts.batches_waiting >= 1
    if facts.status != "draining" or is_untaken:
        return None
    return Verdict(
        sentence="The run is draining: open episodes finish, and what waits is served.",
        proof=[f"{facts.queued:,} {facts.unit} wait for a trainer", *_unsent(facts)],
        change="Nothing: it ends by itself. Stop gives it a deadline.",
    )


def refused(facts: Facts) -> Verdict | None:
    """Return the diagnosis of a run that refuses pushes."""
    if not facts.refused:
        return None
    arrives = (
        "" if facts.arriving is None else f" {facts.arriving:.3g} {facts.unit}/s are accepted."
    )
    return Verdict(
        stage="push",
        sentence=f"Pushes are refused, and their data is lost.{arrives}",
        proof=list(facts.refused),
        change="Correct the field that the message names in the environment, or set `lenient` "
        "on the run to accept groups with inconsistent lengths.",
    )


def over_tolerance(facts: Facts) -> Verdict | None:
    """Return the diagnosis of an outside run whose queue pauses its environments."""
    if facts.kind != "outside" or not facts.is_full or facts.batches_waiting < 1:
        return None
    limit = (
        "" if facts.pause_above is None else f", environments pause above {facts.pause_above:,g}"
    )
    return Verdict(
        stage="train",
        sentence="Environments are paused: the trainer takes batches more slowly than they push.",
        proof=[f"{facts.queued:,} {facts.unit} are queued{limit}"],
        change="Make train steps faster, or run fewer environments. A trainer that acknowledges "
        "a batch before it trains on it appears to wait while it trains.",
    )


def without_trainer(facts: Facts) -> Verdict | None:
    """Return the diagnosis of an outside run whose environments wait for a trainer."""
    if not facts.waiting_environments:
        return None
    return Verdict(
        stage="train",
        sentence="Environments wait for a trainer: none has registered and asked for a batch.",
        proof=[f"{name} waits" for name in facts.waiting_environments],
        change="Start the trainer. Environments register within seconds after its first request "
        "for a batch.",
    )


def silent(facts: Facts) -> Verdict | None:
    """Judge a run in which nothing happened at all."""
    is_silent = not facts.shares and facts.arriving is None and facts.trainer_waits is None
    if not is_silent or facts.queued:
        return None
    return Verdict(
        sentence="Nothing moved in the last minute.",
        proof=["no data came in", "no trainer had a batch"],
        change="Start the trainer, then the environments; API & tokens has their commands."
        if facts.kind == "outside"
        else "Start the trainer, or look at the log of a worker on Fleet.",
    )


def _given(reason: str) -> list[str]:
    return [reason] if reason else []


def _coming(facts: Facts) -> list[str]:
    counts = [(facts.workers_coming, "being started"), (facts.workers_down, "failed")]
    return [f"{count:,} {what}" for count, what in counts if count]


def _unsent(facts: Facts) -> list[str]:
    return [f"workers have {facts.to_send:,} more to send"] if facts.to_send else []
