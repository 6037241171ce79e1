"""Diagnosis of runs whose environments fail, idle or produce data that cannot be used."""

import re
from collections.abc import Iterable
from typing import Final

from rollouts.diagnosis.rules import phrases
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts
from web.rules.amounts import percent

LOST: Final = 3
"""Losses of env slots in two minutes from which failing environments are the diagnosis."""
LOST_SHARE: Final = 0.1
"""Share of the env slots that must be lost in that time, in a large fleet."""
CAUSES_AT_MOST: Final = 3
CAUSE_LENGTH: Final = 300
# Messages of the events `slot_restarted` and `slot_failed`.
_RAISED: Final = re.compile(r"^Slot \d+: (?:restarted|given up) after an error: ")
_ENDED: Final = re.compile(r"^env process \d+ (.*); (?:restarting|given up): \d+ slots$", re.DOTALL)


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


def failing(facts: Facts) -> Diagnosis | None:
    """Diagnose environments that raise, hang or end again and again."""
    least = max(LOST, LOST_SHARE * facts.env_slots)
    if facts.kind != "fleet" or facts.slots_lost < least:
        return None
    given_up = f"; given up: {facts.slots_given_up:,}" if facts.slots_given_up else ""
    return Diagnosis(
        kind="environments_fail",
        stage="step",
        summary=f"Environments fail: env slots were lost {facts.slots_lost:,} times in 2 min"
        f"{given_up}.",
        evidence=[*facts.env_errors, phrases.arriving(facts)],
        change="Fix the environment. " + phrases.tracebacks(facts, "slot_failed,slot_restarted"),
    )


def fragments_refused(facts: Facts) -> Diagnosis | None:
    """Diagnose a fleet whose fragments the platform refuses."""
    if facts.kind != "fleet" or not facts.refused:
        return None
    return Diagnosis(
        kind="pushes_refused",
        stage="push",
        summary="The platform refuses fragments of the workers, and their data is lost.",
        evidence=[*facts.refused, phrases.arriving(facts)],
        change="Correct the part that the message names in the environment, or with a wrapper. If "
        "a fragment is too large, lower fragment_length or use smaller observations.",
    )


def equal_rewards(facts: Facts) -> Diagnosis | None:
    """Diagnose a language run whose groups are dropped because their rewards are equal."""
    share = facts.equal_groups / facts.groups if facts.groups else 0.0
    if facts.kind != "language" or facts.arriving is not None or share < phrases.MOSTLY:
        return None
    is_all = facts.equal_groups == facts.groups
    summary = (
        f"All {facts.answers:,} answers had equal rewards within their group"
        if is_all
        else f"{facts.equal_groups:,} of {facts.groups:,} groups had equal rewards"
    )
    return Diagnosis(
        kind="equal_rewards",
        stage="infer",
        summary=f"{summary}, so {'every group was' if is_all else 'they were'} dropped.",
        evidence=[*facts.equal_lessons, phrases.arriving(facts)],
        change="The task is too hard or too easy, or the reward is constant: choose problems of "
        "which some answers succeed, raise group_size, or correct the reward.",
    )


def without_gradient(facts: Facts) -> Diagnosis | None:
    """Diagnose a run whose newest groups all have advantages of 0."""
    if not facts.groups_without_gradient or facts.arriving is None:
        return None
    return Diagnosis(
        kind="no_gradient",
        stage="push" if facts.kind == "outside" else "infer",
        summary=f"None of the newest {facts.groups_without_gradient:,} groups can teach: every "
        "advantage is 0, so their batches have no gradient.",
        evidence=[*facts.gradient_evidence, phrases.arriving(facts)],
        change="Choose problems of which some answers succeed, use a finer reward, or raise the "
        "group size. If the environment sends `advantages` or `set_advantage_to_zero`, correct "
        "them. `drop_zero_variance` keeps groups of equal scores out of the batches.",
    )


def idle(facts: Facts) -> Diagnosis | None:
    """Diagnose an outside run whose environments ask for their status but push nothing."""
    is_short = facts.batch_size is None or facts.queued < facts.batch_size
    is_idle = facts.arriving is None and facts.holding_seconds is None and is_short
    if facts.kind != "outside" or not facts.idle_environments or not is_idle:
        return None
    return Diagnosis(
        kind="environments_idle",
        stage="push",
        summary="Environments ask for their status, but push nothing.",
        evidence=[*facts.idle_environments, *_asked(facts)],
        change="Read the log of the environment: its rollouts may fail, for example because its "
        "inference server refuses its requests.",
    )


def missing(facts: Facts) -> Diagnosis | None:
    """Diagnose an outside run whose trainer asks for batches that no environment fills."""
    is_waiting = facts.is_asked and facts.trainer_waits is None and facts.arriving is None
    if facts.kind != "outside" or facts.queued or facts.environments or not is_waiting:
        return None
    return Diagnosis(
        kind="no_environments",
        stage="push",
        summary="The trainer asks for batches, and no environment pushes data.",
        evidence=["the queue is empty", "no environment has made a call in the last 2 min"],
        change="Start the environments; API & tokens lists the commands.",
    )


def success_of(name: str, *, equal: int, groups: int, success: float) -> str:
    """Return the counts of a lesson as evidence."""
    return (
        f"lesson {name}: {equal:,} of {groups:,} groups with equal rewards, "
        f"success {percent(success)}"
    )


def _asked(facts: Facts) -> list[str]:
    if not facts.is_asked:
        return []
    queued = "is empty" if not facts.queued else f"holds {facts.queued:,} {facts.unit}"
    return [f"the trainer asks for batches, the queue {queued}"]
