"""Lessons and performances for the tests of curricula."""

from collections.abc import Collection, Mapping, Sequence

from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Outcome, Performance, Progress
from rollouts.lessons.rules.strategy import Change, Strategy, draw_probabilities


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
        status=status, training=training or Performance(), evaluation=evaluation or Performance()
    )


def changes(
    strategy: Strategy,
    lessons: Mapping[str, Lesson],
    all_progress: Mapping[str, Progress],
    *,
    touched: Collection[str] | None = None,
) -> list[Change]:
    """Return the status changes after an outcome of the lessons in `touched`, of all if None."""
    decided = (
        strategy.decide(name, lessons, all_progress)
        for name, lesson in lessons.items()
        if touched is None
        or name in touched
        or any(one.lesson in touched for one in lesson.requires)
    )
    return [change for change in decided if change is not None]


def probabilities(
    strategy: Strategy, lessons: Mapping[str, Lesson], all_progress: Mapping[str, Progress]
) -> dict[str, float]:
    """Return the probability of each drawn lesson while at least one is active."""
    weights = {
        name: strategy.weight(lessons[name], one)
        for name, one in all_progress.items()
        if one.status is LessonStatus.ACTIVE
    }
    learnt = [name for name, one in all_progress.items() if one.status is LessonStatus.GRADUATED]
    return draw_probabilities(strategy, weights, graduated=learnt)


def moves(
    strategy: Strategy, lessons: Mapping[str, Lesson], all_progress: Mapping[str, Progress]
) -> dict[str, str]:
    """Return the status changes of lessons under a strategy."""
    return {
        change.lesson: str(change.target) for change in changes(strategy, lessons, all_progress)
    }
