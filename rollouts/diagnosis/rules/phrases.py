"""Phrases that several rules of a diagnosis share."""

from typing import Final

from rollouts.diagnosis.rules.flow import Facts
from web.rules.amounts import percent

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3


def versions(count: int) -> str:
    """Return a number of policy versions."""
    return f"{count:,} version{'' if count == 1 else 's'}"


def producers(facts: Facts) -> str:
    """Name the part that produces data."""
    return "environments" if facts.kind == "outside" else "workers"


def limit(facts: Facts) -> str:
    """Name the limit on data that workers produce ahead of the trainer."""
    if facts.max_staleness is None:
        return "the off-policy tolerance"
    return f"the staleness limit (max_staleness {facts.max_staleness:,})"


def setting(facts: Facts) -> str:
    """Name the run setting of that limit."""
    return "off_policy_tolerance" if facts.max_staleness is None else "max_staleness"


def pause(facts: Facts, *, is_held: bool) -> str:
    """Return a summary about the limit that pauses producers, with a leading space.

    A full queue and the staleness limit differ: the latter pauses workers even if the queue is
    empty.
    """
    if facts.is_full:
        return f" The queue is full, so {producers(facts)} pause."
    if is_held and facts.kind != "outside":
        name = limit(facts)
        return f" {name[0].upper()}{name[1:]} pauses workers."
    return ""


def held_back(facts: Facts) -> str:
    """Return the share of time in which the limit pauses workers."""
    return f"{limit(facts)} pauses workers {percent(facts.held_back)} of their time"


def arriving(facts: Facts) -> str:
    """Return the rate of arriving data."""
    if facts.arriving is None:
        return "no data arrived in the last minute"
    return f"{facts.arriving:.3g} {facts.unit} arrive per second"


def tracebacks(facts: Facts, kinds: str) -> str:
    """Return the command that prints the tracebacks of the newest events of some kinds."""
    return f"`rolldeck events {facts.run} --kinds {kinds} --details` prints the tracebacks."


def waiting_batches(facts: Facts) -> list[str]:
    """Return the number of complete queued batches, if any."""
    whole = int(facts.batches_waiting)
    return [f"{whole:,} more {'is' if whole == 1 else 'are'} queued"] if whole else []
