"""Causes in which data is lost, or a part is broken."""

import re
from collections.abc import Iterable
from typing import Final

from rollouts.diagnosis.rules import diagnosis as common
from rollouts.diagnosis.rules.diagnosis import LATE_SECONDS, MOSTLY, SELDOM, Diagnosis, alert_if
from rollouts.diagnosis.rules.flow import AlertText, Facts
from web.rules.amounts import duration, percent

CRASHES: Final = 3
"""Worker crashes in :data:`CRASH_MINUTES` minutes from which they are named."""
CRASH_MINUTES: Final = 5
LOST: Final = 3
"""Losses of env slots in two minutes from which failing environments are named."""
LOST_SHARE: Final = 0.1
"""Share of the env slots that must be lost in that time, in a large fleet."""
FETCHES: Final = 3
"""Fetches of one batch without an acknowledgement from which they are named."""
CAUSES_AT_MOST: Final = 3
CAUSE_LENGTH: Final = 300
NAMED_AT_MOST: Final = 3
"""Maximum number of workers that an alert names."""
# Messages of the events `slot_restarted` and `slot_failed`.
_RAISED: Final = re.compile(r"^Slot \d+: (?:restarted|given up) after an error: ")
_ENDED: Final = re.compile(r"^env process \d+ (.*); (?:restarting|given up): \d+ slots$", re.DOTALL)


def without_workers(facts: Facts) -> Diagnosis | None:
    """Name a fleet that reports, but has no running worker."""
    is_wanted = facts.status == "running" or facts.fleet == "running"
    if facts.kind == "outside" or facts.workers or not is_wanted or facts.status == "draining":
        return None
    return Diagnosis(
        kind="workers_down",
        summary="No worker of the fleet is running.",
        evidence=common.coming(facts),
        change="Fleet shows why each worker is down. Workers that may recover are "
        "restarted automatically.",
        alerts=_workers_alert(facts),
    )


def workers_down(facts: Facts) -> Diagnosis | None:
    """Name workers that failed or do not restart, beside others that run."""
    if not facts.down_workers:
        return None
    count = len(facts.down_workers)
    total = max(facts.workers_wanted, count)
    return Diagnosis(
        kind="workers_down",
        summary=f"{count:,} of {total:,} workers {'is' if count == 1 else 'are'} down.",
        evidence=[_named(facts), common.arriving(facts)],
        change="Fleet shows why each worker exited. Workers that may recover are restarted "
        "automatically.",
        alerts=_workers_alert(facts),
    )


def workers_crash(facts: Facts) -> Diagnosis | None:
    """Name workers, or loops in them, that crash again and again."""
    if facts.kind == "outside":
        return None
    if facts.crashes >= CRASHES - (1 if facts.slack("workers_down", "") else 0):
        absent = max(0, facts.workers_wanted - facts.workers)
        return Diagnosis(
            kind="workers_down",
            summary=f"Workers crashed {facts.crashes:,} times in {CRASH_MINUTES} min.",
            evidence=[
                *([facts.crash_reason] if facts.crash_reason else []),
                *facts.env_errors,
                f"{absent:,} of {facts.workers_wanted:,} workers are not running",
            ],
            change="Fix the cause that Pipeline lists. Fleet shows the log of each crash.",
            alerts=_workers_alert(facts)
            or [AlertText(f"workers of {facts.run} crash again and again")],
        )
    if facts.loop_crashes >= CRASHES:
        return Diagnosis(
            kind="workers_down",
            summary=f"Loops of the fleet crashed {facts.loop_crashes:,} times in 2 min.",
            evidence=[facts.loop_error, common.arriving(facts)],
            change="Fix the cause that Pipeline lists; the loops restart automatically. "
            + common.tracebacks(facts, "loop_crashed"),
            alerts=[AlertText(f"loops in the fleet of {facts.run} crash again and again")],
        )
    return None


def inference_failed(facts: Facts) -> Diagnosis | None:
    """Name the inference server of a language run that does not answer."""
    if facts.kind != "language" or not facts.inference_failures:
        return None
    count = facts.inference_failures
    return Diagnosis(
        kind="workers_down",
        stage="infer",
        summary=f"Generation failed {count:,} time{'' if count == 1 else 's'} in the last 2 min.",
        evidence=[facts.inference_error],
        change="Check the inference server: its address, its log and its memory. Workers retry "
        "automatically.",
        alerts=alert_if(
            facts.is_stalled_for_data, f"workers of {facts.run} cannot generate: {_no_data(facts)}"
        ),
    )


def workers_blocked(facts: Facts) -> Diagnosis | None:
    """Name running workers that cannot sample."""
    if facts.kind == "outside" or not facts.workers_blocked:
        return None
    server = " If an inference server is named, check its address, its log and its memory."
    return Diagnosis(
        kind="workers_down",
        stage="infer",
        summary=f"{facts.workers_blocked:,} of {facts.workers:,} workers cannot sample.",
        evidence=[facts.block_reason],
        change="Fix the cause that Pipeline lists; workers retry automatically."
        + (server if facts.kind == "language" else ""),
        alerts=alert_if(
            facts.is_stalled_for_data, f"workers of {facts.run} cannot sample: {_no_data(facts)}"
        ),
    )


def environments_fail(facts: Facts) -> Diagnosis | None:
    """Name environments that raise, hang or end again and again."""
    least = max(LOST, LOST_SHARE * facts.env_slots)
    if facts.kind != "fleet" or facts.slots_lost < least:
        return None
    given_up = f"; given up: {facts.slots_given_up:,}" if facts.slots_given_up else ""
    return Diagnosis(
        kind="environments_fail",
        stage="step",
        summary=f"Environments fail: env slots were lost {facts.slots_lost:,} times in 2 min"
        f"{given_up}.",
        evidence=[*facts.env_errors, common.arriving(facts)],
        change="Fix the environment. " + common.tracebacks(facts, "slot_failed,slot_restarted"),
        alerts=[AlertText(f"environments of {facts.run} fail again and again")],
    )


def causes(messages: Iterable[tuple[str, int]], *, environment: str) -> list[str]:
    """Return the causes of lost env slots in the order of their newest event, with their counts.

    Args:
        messages: Message and number of slots of each event, newest first.
        environment: Spec of the environment.
    """
    counts: dict[str, int] = {}
    for message, slots in messages:
        cause = _ENDED.sub(r"its process \1", _RAISED.sub("", message))[:CAUSE_LENGTH]
        counts[cause] = counts.get(cause, 0) + slots
    named = [
        f"{environment}: {cause} ({count:,} time{'' if count == 1 else 's'})"
        for cause, count in counts.items()
    ]
    further = len(named) - CAUSES_AT_MOST
    return [*named[:CAUSES_AT_MOST], *([f"{further:,} further causes"] if further > 0 else [])]


def pushes_refused(facts: Facts) -> Diagnosis | None:
    """Name environments whose pushes are refused."""
    if not facts.refused or facts.kind == "fleet":
        return None
    arrives = (
        "" if facts.arriving is None else f" {facts.arriving:.3g} {facts.unit}/s are accepted."
    )
    return Diagnosis(
        kind="pushes_refused",
        stage="push",
        summary=f"Pushes are refused: {facts.refused_groups:,} groups are lost.{arrives}",
        evidence=list(facts.refused),
        change=" ".join(facts.refusal_advice),
        alerts=facts.refusal_alerts,
    )


def fragments_refused(facts: Facts) -> Diagnosis | None:
    """Name a fleet whose fragments the platform refuses."""
    if not facts.refused or facts.kind != "fleet":
        return None
    return Diagnosis(
        kind="pushes_refused",
        stage="push",
        summary="The platform refuses fragments of the workers, and their data is lost.",
        evidence=[*facts.refused, common.arriving(facts)],
        change="Correct the part that the message names in the environment, or with a wrapper. If "
        "a fragment is too large, lower fragment_length or use smaller observations.",
        alerts=facts.refusal_alerts,
    )


def dropped_on_arrival(facts: Facts) -> Diagnosis | None:
    """Name groups that were accepted and dropped at once."""
    if not facts.arrival_drops:
        return None
    return Diagnosis(
        kind="stale_drops",
        stage="push",
        summary=f"{facts.arrival_drops[0].upper()}{facts.arrival_drops[1:]}.",
        evidence=[common.arriving(facts)],
        change=facts.arrival_remedy,
        alerts=[AlertText(f"{facts.run}: {facts.arrival_drops}. {facts.arrival_remedy}")],
    )


def dropped_as_stale(facts: Facts) -> Diagnosis | None:
    """Name queued data that is dropped because it became stale."""
    stale = facts.stale_share or 0.0
    if stale <= SELDOM - facts.slack("stale_drops", "queue"):
        return None
    limits = [("max_staleness", facts.max_staleness), ("max_age_seconds", facts.max_age_seconds)]
    limit = " and ".join(f"{name} {value:,g}" for name, value in limits if value is not None)
    waits = facts.trainer_waits
    waiting = "" if waits is None else f", while the trainer waits {percent(waits)} of its time"
    return Diagnosis(
        kind="stale_drops",
        stage="queue",
        summary=f"{percent(stale)} of the newest data was dropped as stale{waiting}.",
        evidence=[f"the limit is {limit or 'the epoch'}", common.arriving(facts)],
        change="Sample with newer weights, sample shorter episodes, or raise the limit.",
        alerts=[AlertText(f"{facts.run} drops more than {percent(SELDOM)} of its items as stale")],
    )


def without_weights(facts: Facts) -> Diagnosis | None:
    """Name a fleet that has no weights."""
    waiting = facts.shares.get("waiting_weights", 0.0)
    if waiting < MOSTLY or facts.kind == "outside":
        return None
    evidence = [f"workers wait for weights {percent(waiting)} of their time"]
    alerts = alert_if(
        facts.is_stalled_for_data, f"workers of {facts.run} have no weights: {_no_data(facts)}"
    )
    if facts.version is None:
        return Diagnosis(
            kind="training_stalled",
            stage="train",
            summary="No trainer has published weights yet, so workers cannot act.",
            evidence=evidence,
            change="Start the trainer: it publishes its initial weights.",
            alerts=alerts,
        )
    if not facts.workers_without_weights:
        return None
    return Diagnosis(
        kind="weights_late",
        stage="infer",
        summary="Weights are published, but workers have not received them.",
        evidence=[*evidence, f"the newest version is {facts.version}"],
        change="Open Weights to see which worker lacks the version, and why.",
        alerts=alerts,
    )


def weights_behind(facts: Facts) -> Diagnosis | None:
    """Name a worker without the newest weights, or one that received them late."""
    if facts.kind == "outside":
        return None
    behind, loaded = facts.behind_seconds or 0.0, facts.load_seconds or 0.0
    if facts.versions_behind and behind >= LATE_SECONDS:
        count = common.versions(facts.versions_behind)
        summary = f"The slowest worker is {count} behind the newest published weights."
        evidence = f"a newer version has been available for {duration(behind)}"
    elif facts.slack("weights_late", "infer") and loaded >= LATE_SECONDS:
        summary = f"The slowest worker loads new weights in {duration(loaded)}."
        evidence = f"a version that was loaded in the last minute took {duration(loaded)}"
    else:
        return None
    return Diagnosis(
        kind="weights_late",
        stage="infer",
        summary=summary,
        evidence=[
            f"the newest version is {facts.version}",
            evidence,
            f"workers should receive a version within {duration(LATE_SECONDS)}",
        ],
        change="Open Weights to see which worker lacks the version, and why. Its data "
        "becomes too stale to train on.",
        alerts=alert_if(
            0 < facts.stalled_seconds < behind,
            f"a worker of {facts.run} has lacked the newest weights for more than "
            f"{common.minutes(facts.stalled_seconds)}",
        ),
    )


def waiting_for_trainer(facts: Facts) -> Diagnosis | None:
    """Name the environments of an outside run that wait for a trainer."""
    if not facts.waiting_environments or facts.status in {"queued", "starting"}:
        return None
    return Diagnosis(
        kind="training_stalled",
        stage="train",
        summary="Environments wait for a trainer: none has registered and requested a batch.",
        evidence=[f"{name} waits" for name in facts.waiting_environments],
        change="Start the trainer. Environments register within seconds after its first request "
        "for a batch.",
        alerts=alert_if(
            facts.status == "running" and facts.is_stalled_for_data,
            f"environments of {facts.run} wait for a trainer: {_no_data(facts)}",
        ),
    )


def unacknowledged(facts: Facts) -> Diagnosis | None:
    """Name a trainer that fetches the same batch again and again."""
    number, times = facts.fetched_again or (0, 0)
    if times < FETCHES:
        return None
    return Diagnosis(
        kind="training_stalled",
        stage="train",
        summary=f"The trainer has fetched batch #{number} {times:,} times without acknowledging "
        "it, so it trains on the same data again.",
        evidence=common.waiting_batches(facts),
        change="Acknowledge each batch after training on it: `trainer.ack(batch)`, or a loop over "
        "`trainer.batches()`. `POST /batches/next` without an acknowledgement returns the same "
        "batch.",
        alerts=[AlertText(f"the trainer of {facts.run} does not acknowledge its batches")],
    )


def equal_rewards(facts: Facts) -> Diagnosis | None:
    """Name the equal rewards of a language run whose groups are dropped because of them."""
    share = facts.equal_groups / facts.groups if facts.groups else 0.0
    if facts.kind != "language" or facts.arriving is not None or share < MOSTLY:
        return None
    is_all = facts.equal_groups == facts.groups
    summary = (
        f"All {facts.answers:,} answers had equal rewards within their group"
        if is_all
        else f"{facts.equal_groups:,} of {facts.groups:,} groups had equal rewards"
    )
    return Diagnosis(
        kind="no_gradient",
        stage="infer",
        summary=f"{summary}, so {'every group was' if is_all else 'they were'} dropped.",
        evidence=[*facts.equal_lessons, common.arriving(facts)],
        change="The task is too hard or too easy, or the reward is constant: choose problems of "
        "which some answers succeed, raise group_size, or correct the reward.",
        alerts=alert_if(
            facts.is_stalled_for_data, f"groups of {facts.run} have equal rewards and are dropped"
        ),
    )


def no_gradient(facts: Facts) -> Diagnosis | None:
    """Name groups that cannot teach, because their advantages are all 0."""
    if not facts.groups_without_gradient or facts.arriving is None:
        return None
    return Diagnosis(
        kind="no_gradient",
        stage="push" if facts.kind == "outside" else "infer",
        summary=f"None of the newest {facts.groups_without_gradient:,} groups can teach: every "
        "advantage is 0, so their batches have no gradient.",
        evidence=[*facts.gradient_evidence, common.arriving(facts)],
        change="Choose problems of which some answers succeed, use a finer reward, or raise the "
        "group size. If the environment sends `advantages` or `set_advantage_to_zero`, correct "
        "them. `drop_zero_variance` keeps groups of equal scores out of the batches.",
        alerts=[AlertText(f"the newest groups of {facts.run} have no gradient")],
    )


def _workers_alert(facts: Facts) -> list[AlertText]:
    workers = list(facts.down_workers)
    if not workers or facts.status not in {"running", "draining"}:
        return []
    many = (
        f"one worker of {facts.run} is"
        if len(workers) == 1
        else f"{len(workers)} workers of {facts.run} are"
    )
    return [AlertText(f"{many} down: {_named(facts)}", details={"workers": workers})]


def _named(facts: Facts) -> str:
    left = len(facts.down_workers) - NAMED_AT_MOST
    named = ", ".join(facts.down_workers[:NAMED_AT_MOST])
    return f"{named} and {left} more" if left > 0 else named


def _no_data(facts: Facts) -> str:
    return f"no items for more than {common.minutes(facts.stalled_seconds)}"
