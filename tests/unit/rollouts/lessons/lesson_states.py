"""Lessons and performances for the tests of curricula."""

from collections.abc import Mapping, Sequence

from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Outcome, Performance, Progress
from rollouts.lessons.rules.strategy import Strategy, changes


def over_time(*batches: tuple[Sequence[float], int]) -> Performance:
    """Return the performance after batches of rewards by step; a reward above 0 is a success."""
    made = Performance()
    for rewards, step in batches:
        successes = sum(reward > 0 for reward in rewards)
        made = made.add(Outcome(step=step, rewards=tuple(rewards), successes=successes))
    return made


def performance(*batches: Sequence[float], step: int = 0) -> Performance:
    return over_time(*[(rewards, step) for rewards in batches])


def progress(
    *,
    status: LessonStatus = LessonStatus.ACTIVE,
    training: Performance | None = None,
    evaluation: Performance | None = None,
) -> Progress:
    return Progress(
        status=status,
        training=training or Performance(),
        evaluation=evaluation or Performance(),
    )


def moves(
    strategy: Strategy, lessons: Mapping[str, Lesson], all_progress: Mapping[str, Progress]
) -> dict[str, str]:
    """Return the status changes of lessons under a strategy."""
    return {
        change.lesson: str(change.target) for change in changes(strategy, lessons, all_progress)
    }
