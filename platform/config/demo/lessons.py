"""Progress of the language run: its lessons and those that have graduated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from config.demo.progress import RunState
from rollouts.curriculum.queries.lessons import lesson_changes, lessons
from rollouts.curriculum.schemas import LessonChangeRow, LessonRow
from web.rules.amounts import percent
from web.rules.pages import PageRequest

TARGET_LESSONS: Final = 3
TARGET_SUCCESS: Final = 0.9
NEWEST: Final[PageRequest[int]] = PageRequest(limit=500)
_MOVES: Final[Mapping[tuple[str, str], str]] = {
    ("locked", "active"): "unlocks",
    ("active", "graduated"): "graduates",
    ("graduated", "active"): "falls back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonsProgress:
    """A snapshot of the run.

    Attributes:
        run: State of the run.
        lessons: All lessons.
        changes: Status changes of lessons, oldest first.
    """

    run: RunState = field(default_factory=RunState)
    lessons: tuple[LessonRow, ...] = ()
    changes: tuple[LessonChangeRow, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Whether any sample has been answered."""
        return any(lesson.samples for lesson in self.lessons)

    @property
    def ever_graduated(self) -> list[str]:
        """Lessons that have ever graduated, in order of their first graduation."""
        moves = (one.lesson for one in self.changes if one.target == "graduated")
        return list(dict.fromkeys(moves))

    @property
    def first_success(self) -> float | None:
        """Success in [0, 1] of the newest evaluation of the lesson that graduated first."""
        names = self.ever_graduated[:1]
        return next((_evaluated(one) for one in self.lessons if one.name in names), None)

    @property
    def target(self) -> int:
        """Number of lessons that have to graduate."""
        return min(TARGET_LESSONS, len(self.lessons))

    @property
    def has_reached_target(self) -> bool:
        """Whether enough lessons have graduated and the first is still mastered."""
        success = self.first_success
        is_known = success is not None and success >= TARGET_SUCCESS
        return is_known and len(self.ever_graduated) >= self.target

    @property
    def share(self) -> float:
        """Graduated share of the target number of lessons, in [0, 1]."""
        return min(1.0, len(self.ever_graduated) / max(1, self.target))

    @property
    def summary(self) -> str:
        """The progress in one phrase."""
        graduated = self.ever_graduated
        text = f"{len(graduated)} of {len(self.lessons)} lessons have graduated, "
        text += f"{self.target} required"
        if not graduated:
            return text
        return f"{text}, {graduated[0]} evaluated at {_percent(self.first_success)}"

    @property
    def rows(self) -> dict[str, str]:
        """The status of each lesson by its name."""
        return {
            lesson.name: f"{lesson.status:9}  evaluated {_percent(_evaluated(lesson)):>7}   "
            f"drawn {_percent(lesson.probability):>7}"
            for lesson in self.lessons
        }

    @property
    def milestones(self) -> tuple[str, ...]:
        """Each status change of a lesson with its reason."""
        moves = ((_MOVES.get((one.source, one.target), one.target), one) for one in self.changes)
        return tuple(
            f"{one.lesson} {move} at version {one.policy_step} ({one.reason})"
            for move, one in moves
        )


class Curricula:
    """Reader of the lessons of one run."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id

    def read(self, run: RunState) -> LessonsProgress:
        """Return the progress for the given state of the run."""
        changes = lesson_changes(self._run_id, lesson="", page=NEWEST).results
        return LessonsProgress(
            run=run,
            lessons=tuple(lessons(self._run_id).results),
            changes=tuple(reversed(changes)),
        )


def _evaluated(lesson: LessonRow) -> float | None:
    figures = lesson.evaluation.figures if lesson.evaluation else None
    return figures.success.estimate if figures else None


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share, digits=1)
