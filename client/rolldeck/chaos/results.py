"""Results of campaigns: counts of a history, and the rules that it breaks."""

import os
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rolldeck.chaos.checker import Violation, check
from rolldeck.chaos.history import Event

FLEET_SECONDS: Final = 60.0
"""Longest time from the end of a fault until the fleet's fragments are accepted again."""


@dataclass(slots=True)
class Injected:
    """An injected fault, with the longest time without an accepted push after its end.

    Attributes:
        fleet_seconds: Time until the platform accepted new fragments of the fleet; None without
            a fleet.
        failure: Error of its injection; empty if it was injected.
    """

    name: str
    seconds: float
    limit_seconds: float
    recovery_seconds: float
    fleet_seconds: float | None = None
    failure: str = ""


@dataclass(slots=True)
class Result:
    """Outcome of a campaign.

    Attributes:
        accepted: Accepted groups.
        fragments: Accepted fragments.
        attempts: Attempts of pushes.
        served: Distinct groups and fragments that trainers received.
        lost: Accepted ones that were neither served nor left over.
        doubled: Those that were stored, or served, more often than once.
        injected: The faults, in order.
        not_injected: Faults that this machine cannot have, with the reasons.
        violations: Broken rules.
        seed: Seed of the workload and of the faults.
        commit, machine, date, server: Version and place of the campaign.
    """

    accepted: int
    attempts: int
    served: int
    seconds: float
    seed: int
    fragments: int = 0
    lost: int = 0
    doubled: int = 0
    commit: str = ""
    machine: str = ""
    date: str = ""
    server: str = "Rolldeck"
    not_injected: list[str] = field(default_factory=list)
    injected: list[Injected] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)


def result_of(
    events: Sequence[Event],
    ledgers: Mapping[str, Mapping[str, Any]],
    injected: list[Injected],
    seed: int,
    seconds: float,
    reuse: Mapping[str, int] | None = None,
) -> Result:
    """Return the counts of a history and the rules that it breaks."""
    violations = check(events, ledgers, reuse)
    for fault in injected:
        if fault.failure:
            text = f"{fault.name}: {fault.failure}"
            violations.append(Violation("every_fault_is_injected", "", text))
        if fault.recovery_seconds > fault.limit_seconds:
            text = f"{fault.name}: {fault.recovery_seconds:.1f} s of {fault.limit_seconds:.0f} s"
            violations.append(Violation("recovery_is_in_time", "", text))
        if (fault.fleet_seconds or 0.0) > FLEET_SECONDS:
            text = f"{fault.name}: fleet, {fault.fleet_seconds:.1f} s of {FLEET_SECONDS:.0f} s"
            violations.append(Violation("recovery_is_in_time", "", text))
    pushes = [event for event in events if event.op == "push"]
    of_fragments = {name for name, each in ledgers.items() if each["fragments"]["accepted"]}
    ok = {(e.run, m) for e in pushes if e.outcome == "ok" for m in e.marks}
    stored = Counter(
        (e.run, m) for e in events if e.op == "follow" and e.outcome == "ok" for m in e.marks
    )
    followed = {run for run, _ in stored}
    return Result(
        accepted=sum(run not in of_fragments for run, _ in ok),
        fragments=sum(ledgers[name]["fragments"]["accepted"] for name in of_fragments),
        attempts=sum(event.outcome == "begin" for event in pushes),
        served=len({(e.run, m) for e in events if e.op == "lease" for m in e.marks}),
        lost=sum(each[0] in followed and each not in stored for each in ok),
        doubled=sum(times > 1 for times in stored.values()),
        seconds=seconds,
        seed=seed,
        injected=injected,
        violations=violations,
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        date=time.strftime("%Y-%m-%d"),
    )
