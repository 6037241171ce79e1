"""Sample answers of micro-evaluations, kept for the newest ones of each lesson."""

from typing import Any, Final

import msgspec

from rolldeck.lessons import LessonOutcome
from rollouts.curriculum.models import LessonOutcome as OutcomeRow

ANSWERS_AT_MOST: Final = 8
"""Sample answers kept of one micro-evaluation."""
WITH_ANSWERS: Final = 20
"""Micro-evaluations of a lesson that keep their answers."""


def micro_answers(outcome: LessonOutcome) -> list[dict[str, Any]]:
    """Return the sample answers to store with an outcome; none unless of a micro-evaluation."""
    if outcome.mode != "micro_eval":
        return []
    built: list[dict[str, Any]] = msgspec.to_builtins(outcome.samples[:ANSWERS_AT_MOST])
    return built


def keep_newest_answers(run_id: int, lesson: str) -> None:
    """Delete the answers of all but the newest micro-evaluations of a lesson."""
    rows = OutcomeRow.objects.filter(run_id=run_id, lesson=lesson, mode="micro_eval")
    older = rows.order_by("-pk").values_list("pk", flat=True)[WITH_ANSWERS : WITH_ANSWERS + 1]
    rows.filter(pk__in=list(older)).exclude(answers=[]).update(answers=[])
