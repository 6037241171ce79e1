"""The cost of lessons does not grow with their number, in CPU time with wide margins."""

import statistics
import time
from collections.abc import Callable

import pytest

from rolldeck.lessons import LessonOutcome, TaskRequest
from rollouts.curriculum.models import Evaluation, Lesson
from rollouts.curriculum.queries.curricula import curriculum_of
from rollouts.curriculum.services.outcomes import count_outcome
from rollouts.curriculum.services.tasks import next_lesson_task
from rollouts.lessons.rules.strategy import draw
from tests.factories import NOON
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db
LESSONS = 1_000
OUTCOME_CPU_MS = 5.0
STRATEGY_CPU_MS = 1.0
MARGIN = 4.0


@pytest.fixture
def lessons() -> Class:
    """A thousand lessons, each third one requiring the two before it, in progress for long."""
    names = {
        f"l{place}": lesson(*([f"l{place - 1}", f"l{place - 2}"] if place % 3 == 2 else []))
        for place in range(LESSONS)
    }
    given = Class(names, strategy_options={"minimum_sample_probability": 0.0005})
    given.task()
    Evaluation.objects.all().delete()
    return given


def cpu_ms(work: Callable[[int], object], times: int) -> float:
    taken = []
    for turn in range(times):
        before = time.process_time()
        work(turn)
        taken.append(1000 * (time.process_time() - before))
    return statistics.median(taken)


def test_the_cost_of_an_outcome_depends_on_its_lessons_only(lessons: Class) -> None:
    def report_outcome(turn: int) -> None:
        outcome = LessonOutcome(
            key=f"outcome-{turn}",
            worker="w0@1",
            mode="train",
            epoch=1,
            policy_step=0,
            generations=8,
            rewards=[0.0, 1.0] * 32,
            successes=[False, True] * 32,
        )
        count_outcome(run_id=lessons.run.pk, lesson="l4", outcome=outcome, now=NOON)

    cpu_ms(report_outcome, 40)  # until the performance has its maximum length
    spent = cpu_ms(lambda turn: report_outcome(1_000 + turn), 60)

    assert spent < MARGIN * OUTCOME_CPU_MS, f"{spent:.2f} ms"


def test_a_draw_among_a_thousand_lessons_is_cheap(lessons: Class) -> None:
    strategy = curriculum_of(lessons.run.pk).strategy
    rows = Lesson.objects.filter(run=lessons.run, status="active").values_list("name", "weight")
    weights = {name: weight + place / LESSONS for place, (name, weight) in enumerate(rows)}
    assert len(weights) > 600

    spent = cpu_ms(lambda turn: draw(strategy.shares(weights), (turn % 97) / 97), 50)

    assert spent < MARGIN * STRATEGY_CPU_MS, f"{spent:.2f} ms"


def test_a_task_reads_one_column_of_each_lesson(lessons: Class) -> None:
    request = TaskRequest(worker="w0@1", epoch=1, policy_step=0)

    spent = cpu_ms(lambda _: next_lesson_task(run_id=lessons.run.pk, request=request, now=NOON), 30)

    assert spent < MARGIN * 10, f"{spent:.2f} ms"
