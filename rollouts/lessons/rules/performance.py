"""Training and evaluation history of a lesson, as long as any strategy needs."""

import math
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from rollouts.lessons.rules.lessons import LessonStatus

REWARDS_KEPT: Final = 1000
"""Same limit as Marin's."""
BATCHES_KEPT: Final = 256


class Counts(NamedTuple):
    """Counts of one batch of a lesson."""

    step: int
    """Train step at which the policy of the batch was published."""
    successes: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of the rollouts of one batch."""

    step: int
    rewards: tuple[float, ...]
    """Finite reward of each episode, in the order of arrival."""
    successes: int
    """Number of successes, by the environment's own report or a threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """All outcomes of a lesson in one mode, the newest in detail."""

    samples: int = 0
    """Total number of episodes."""
    last_step: int = -1
    rewards: tuple[float, ...] = ()
    """The newest rewards, oldest first."""
    batches: tuple[Counts, ...] = ()
    """The newest batches, oldest first."""

    def add(self, outcome: Outcome) -> "Performance":
        """Return the performance with one more batch."""
        step = max(self.last_step, outcome.step)
        counts = Counts(step, outcome.successes, len(outcome.rewards))
        return Performance(
            samples=self.samples + len(outcome.rewards),
            last_step=step,
            rewards=(self.rewards + outcome.rewards)[-REWARDS_KEPT:],
            batches=(*self.batches, counts)[-BATCHES_KEPT:],
        )

    def newest(self, samples: int) -> tuple[Counts, ...]:
        """Return the newest batches that hold at least `samples` samples, or all batches."""
        held = 0
        for place in range(len(self.batches) - 1, -1, -1):
            held += self.batches[place].samples
            if held >= samples:
                return self.batches[place:]
        return self.batches

    def at_last_step(self) -> Counts:
        """Return the sum of the batches of the newest step."""
        same = [batch for batch in self.batches if batch.step == self.last_step]
        return total(same, step=self.last_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Status and history of one lesson."""

    status: LessonStatus
    training: Performance = field(default_factory=Performance)
    evaluation: Performance = field(default_factory=Performance)

    def moved(self, status: LessonStatus) -> "Progress":
        """Return the progress with another status."""
        return replace(self, status=status)


def total(batches: list[Counts] | tuple[Counts, ...], *, step: int = -1) -> Counts:
    """Return the sum of some batches."""
    return Counts(
        step, sum(batch.successes for batch in batches), sum(batch.samples for batch in batches)
    )


def gain(before: Counts, after: Counts) -> tuple[float, float]:
    """Return the increase in success rate of the later samples, and its standard error.

    The standard error is that of the difference of two proportions with one variance.

    Args:
        before: Of at least one sample.
        after: Of at least one sample.
    """
    rate = (before.successes + after.successes) / (before.samples + after.samples)
    spread = math.sqrt(rate * (1 - rate) * (1 / before.samples + 1 / after.samples))
    return after.successes / after.samples - before.successes / before.samples, spread
