"""Read what a language run has learnt: which of its lessons have graduated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from config.demo.progress import RunState
from rollouts.curriculum.queries.lessons import lesson_changes, lessons
from rollouts.curriculum.schemas import LessonChangeRow, LessonRow
from runs.core.amounts import percent

WANTED_LESSONS: Final = 3
WANTED_SUCCESS: Final = 0.9
CHANGES_READ: Final = 500
_MOVES: Final[Mapping[tuple[str, str], str]] = {
    ("locked", "active"): "unlocks",
    ("active", "graduated"): "graduates",
    ("graduated", "active"): "falls back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonsProgress:
    """One look at the run.

    Attributes:
        run: The run itself.
        lessons: All of them.
        changes: How they moved, oldest first.
    """

    run: RunState = field(default_factory=RunState)
    lessons: tuple[LessonRow, ...] = ()
    changes: tuple[LessonChangeRow, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Whether anything has been answered."""
        return any(lesson.samples for lesson in self.lessons)

    @property
    def ever_graduated(self) -> list[str]:
        """Lessons that have graduated, those that fell back included, the first one first."""
        moves = (one.lesson for one in self.changes if one.target == "graduated")
        return list(dict.fromkeys(moves))

    @property
    def first_success(self) -> float | None:
        """Success in [0, 1] of the newest evaluation of the lesson that graduated first."""
        names = self.ever_graduated[:1]
        return next((_evaluated(one) for one in self.lessons if one.name in names), None)

    @property
    def wanted(self) -> int:
        """Lessons that are to graduate."""
        return min(WANTED_LESSONS, len(self.lessons))

    @property
    def has_reached_target(self) -> bool:
        """Whether enough lessons have graduated and the first is still known."""
        success = self.first_success
        is_known = success is not None and success >= WANTED_SUCCESS
        return is_known and len(self.ever_graduated) >= self.wanted

    @property
    def share(self) -> float:
        """Part of the wanted lessons that have graduated."""
        return min(1.0, len(self.ever_graduated) / max(1, self.wanted))

    @property
    def summary(self) -> str:
        """Where it is, in half a line."""
        graduated = self.ever_graduated
        said = f"{len(graduated)} of {len(self.lessons)} lessons have graduated, "
        said += f"{self.wanted} wanted"
        if not graduated:
            return said
        return f"{said}, {graduated[0]} evaluated at {_percent(self.first_success)}"

    @property
    def rows(self) -> dict[str, str]:
        """Each lesson."""
        return {
            lesson.name: f"{lesson.status:9}  evaluated {_percent(_evaluated(lesson)):>7}   "
            f"drawn {_percent(lesson.probability):>7}"
            for lesson in self.lessons
        }

    @property
    def news(self) -> tuple[str, ...]:
        """Each move of a lesson, and why."""
        moves = ((_MOVES.get((one.source, one.target), one.target), one) for one in self.changes)
        return tuple(
            f"{one.lesson} {move} at version {one.policy_step} ({one.reason})"
            for move, one in moves
        )


class Curricula:
    """Reads the lessons of one run."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id

    def read(self, run: RunState) -> LessonsProgress:
        """Return the progress of a run that is in this state."""
        changes = lesson_changes(self._run_id, lesson="", limit=CHANGES_READ)
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
