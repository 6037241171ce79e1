"""Failures of rollouts by cause, and the failure budget of a run that they exhaust."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runs.config.rules.failure_budget import CAUSES, Cause, FailureBudget, FailureLimit

LEAST_OUTCOMES: Final = 3
"""Failing tasks that an exhausted budget requires, so that one large task is not an outage."""
FIRST_PROBE_SECONDS: Final = 10.0
MOST_PROBE_SECONDS: Final = 300.0
_CAUSES: Final[Mapping[str, Cause]] = {
    "inference_failed": "inference",
    "tool_failed": "tool",
    "reward_failed": "reward",
    "reward_timeout": "reward",
    "reward_invalid": "reward",
    "rollout_unscored": "reward",
}
WORDS: Final[Mapping[Cause, str]] = {
    "inference": "the inference server fails",
    "environment": "the environment fails",
    "tool": "tools fail",
    "reward": "rewards fail",
}


def cause_of(kind: str) -> Cause:
    """Return the cause of a kind of failure; kinds of others are those of the environment."""
    return _CAUSES.get(kind, "environment")


class Failures(NamedTuple):
    """Failed rollouts of one task, and their newest error."""

    rollouts: int
    message: str


def failures_by_cause(
    failed: Mapping[str, int], errors: Mapping[str, str]
) -> dict[Cause, Failures]:
    """Return the failures of a task by cause.

    Args:
        failed: Failed rollouts by kind.
        errors: Newest error by kind.
    """
    counts = Counter[Cause]()
    messages: dict[Cause, str] = {}
    for kind, rollouts in failed.items():
        if rollouts:
            cause = cause_of(kind)
            counts[cause] += rollouts
            messages[cause] = errors.get(kind) or messages.get(cause) or kind.replace("_", " ")
    return {cause: Failures(rollouts, messages[cause]) for cause, rollouts in counts.items()}


class Task(NamedTuple):
    """Rollouts of one task, as far as one cause is concerned."""

    lesson: str
    rollouts: int
    """Complete and failed ones, of all causes."""
    failures: Failures | None
    """Those of the cause."""


class Tally(NamedTuple):
    """Rollouts of the newest tasks in which the failures of a limit are reached."""

    rollouts: int
    failed: int
    message: str
    """Newest error."""


def tally_of(tasks: Sequence[Task], limit: FailureLimit) -> Tally | None:
    """Return the newest tasks if their failures exceed a limit; None otherwise.

    The share is that of the newest rollouts, so that an outage is found at once after a long time
    of success.

    Args:
        tasks: Tasks of the window, the oldest first.
        limit: Limit of the cause.
    """
    rollouts = failed = outcomes = 0
    message = ""
    for task in reversed(tasks if limit.failures else ()):
        rollouts += task.rollouts
        if task.failures is None:
            continue
        failed += task.failures.rollouts
        outcomes += 1
        message = message or task.failures.message
        if failed >= limit.failures and outcomes >= LEAST_OUTCOMES:
            exceeds = failed >= limit.share * rollouts
            return Tally(rollouts, failed, message) if exceeds else None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """A cause whose failures exceed the budget of a run, or of some of its lessons."""

    cause: Cause
    rollouts: int
    """Complete and failed ones; 0 if the other side does not answer at all."""
    failed: int
    message: str
    lessons: Collection[str] = field(default=())
    """Lessons that fail alone; empty: the whole run."""

    @property
    def reason(self) -> str:
        """Return the failures and the error of the other side as text."""
        if not self.rollouts:
            return f"{WORDS[self.cause]}: {self.message}"
        return (
            f"{WORDS[self.cause]}: {self.failed:,} of {self.rollouts:,} rollouts failed: "
            f"{self.message}"
        )


def exhausted(
    budget: FailureBudget, tasks: Mapping[Cause, Sequence[Task]], drawn: Collection[str]
) -> list[Exhausted]:
    """Return what exceeds the budget: one entry for the run, or one for each failing lesson.

    Lessons share the inference server: its failures concern the run. Failures of another cause
    concern the run only if every drawn lesson fails.

    Args:
        budget: Limits of the run.
        tasks: Tasks in the window of each cause, the oldest first.
        drawn: Lessons that are sampled at present.
    """
    whole = tally_of(tasks.get("inference", ()), budget.inference)
    if whole is not None:
        return [_entry("inference", whole)]
    failing: dict[str, Exhausted] = {}
    for cause in CAUSES:
        if cause == "inference":
            continue
        for lesson in drawn:
            own = [task for task in tasks.get(cause, ()) if task.lesson == lesson]
            tally = tally_of(own, budget.limit_of(cause))
            before = failing.get(lesson)
            if tally is not None and (before is None or before.failed < tally.failed):
                failing[lesson] = _entry(cause, tally, lesson)
    if not failing or not set(drawn) <= failing.keys():
        return list(failing.values())
    worst = max(failing.values(), key=lambda one: one.failed)
    same = [one for one in failing.values() if one.cause == worst.cause]
    rollouts, failed = (sum(getattr(one, name) for one in same) for name in ("rollouts", "failed"))
    return [_entry(worst.cause, Tally(rollouts, failed, worst.message))]


def _entry(cause: Cause, tally: Tally, *lessons: str) -> Exhausted:
    return Exhausted(cause=cause, lessons=lessons, **tally._asdict())


def probe_wait(probes: int) -> float:
    """Return the seconds from one probe of an outage to the next, doubled after each."""
    return min(MOST_PROBE_SECONDS, FIRST_PROBE_SECONDS * 2.0 ** min(probes, 16))
