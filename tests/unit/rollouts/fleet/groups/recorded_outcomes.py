"""Curriculum that only stores outcomes."""

from rolldeck.lessons import LessonOutcome, OutcomeReceipt
from rollouts.fleet.groups.curriculum import NoCurriculum


class OutcomesKept(NoCurriculum):
    """Stores outcomes in the order of arrival."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, LessonOutcome]] = []

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        self.kept.append((lesson, outcome))
        return OutcomeReceipt(is_new=True)
