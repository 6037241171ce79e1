"""Curriculum that only stores outcomes."""

from rolldeck.lessons import LessonOutcome, OutcomeReceipt
from rollouts.fleet.groups.curriculum import NoCurriculum


class RecordedOutcomes(NoCurriculum):
    """Stores outcomes in the order of arrival."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, LessonOutcome]] = []

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        self.outcomes.append((lesson, outcome))
        return OutcomeReceipt(is_new=True)
