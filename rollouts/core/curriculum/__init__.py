"""Curriculum rules without I/O: sampling of lessons, unlocking and graduation."""

from rollouts.core.curriculum.lessons import (
    InvalidCurriculum,
    Lesson,
    LessonStatus,
    Requirement,
    check_lessons,
    in_order,
)
from rollouts.core.curriculum.marin import MarinStrategy
from rollouts.core.curriculum.packing import pack, unpack
from rollouts.core.curriculum.performance import Outcome, Performance, Progress
from rollouts.core.curriculum.rolldeck import RolldeckStrategy
from rollouts.core.curriculum.steering import LEAST_FACTOR, MOST_FACTOR, judged, reweighted
from rollouts.core.curriculum.strategy import (
    Change,
    Strategy,
    changes,
    concentration,
    draw,
    drawn,
    initial_progress,
    is_complete,
    probabilities,
)

__all__ = [
    "LEAST_FACTOR",
    "MOST_FACTOR",
    "Change",
    "InvalidCurriculum",
    "Lesson",
    "LessonStatus",
    "MarinStrategy",
    "Outcome",
    "Performance",
    "Progress",
    "Requirement",
    "RolldeckStrategy",
    "Strategy",
    "changes",
    "check_lessons",
    "concentration",
    "draw",
    "drawn",
    "in_order",
    "initial_progress",
    "is_complete",
    "judged",
    "pack",
    "probabilities",
    "reweighted",
    "unpack",
]
