"""The demo reports each status change of a lesson, and detects the target."""

from datetime import UTC, datetime

import pytest

from config.demo.show import lesson_progress
from rollouts.curriculum.schemas import EvaluationRow, LessonChangeRow, LessonRow
from rollouts.lessons.rules.evaluation import EvaluationFigures, Interval

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEARNT = (("one", "graduated"), ("two", "graduated"), ("three", "graduated"))


def evaluation(lesson: str, success: float) -> EvaluationRow:
    return EvaluationRow(
        id="0",
        lesson=lesson,
        round=1,
        state="done",
        epoch=1,
        due_step=0,
        policy_step=0,
        created_at=NOW,
        finished_at=NOW,
        worker="w",
        attempts=1,
        reason="",
        figures=EvaluationFigures(
            problems=256,
            generations=1,
            successes=int(256 * success),
            success=Interval(success, success, success),
            pass_at={1: success},
            reward=Interval(success, success, success),
        ),
        pass_at={1: Interval(success, success, success)},
        samples=[],
    )


def lesson(name: str, success: float | None = None, *, samples: int = 64) -> LessonRow:
    return LessonRow(
        name=name,
        spec="task:reverse",
        requires=[],
        stop_success=0.9,
        status="active",
        reason="requires nothing",
        changed_at=None,
        has_regressed=False,
        probability=0.25,
        hold="",
        weight_factor=1.0,
        steered_by="",
        steered_reason="",
        steered_at=None,
        unlock_rule="",
        success=0.5,
        examples=8,
        pass_size=0,
        samples=samples,
        zero_variance_share=None,
        truncated_share=None,
        duplicate_share=None,
        short_groups="drop",
        failed=0,
        refilled=0,
        lost_siblings=0,
        tokens_mean=None,
        errors=0,
        last_error="",
        evaluation=None if success is None else evaluation(name, success),
    )


def moves(*targets: tuple[str, str]) -> tuple[LessonChangeRow, ...]:
    """Return changes to the given targets, each from a possible source."""
    sources = {"active": "locked", "graduated": "active"}
    return tuple(
        LessonChangeRow(
            id=number,
            at=NOW,
            lesson=name,
            source=sources[target],  # type: ignore[arg-type]
            target=target,  # type: ignore[arg-type]
            reason="because",
            actor="curriculum",
            figures={},
            epoch=1,
            policy_step=25 * number,
        )
        for number, (name, target) in enumerate(targets)
    )


def fell_back(name: str) -> LessonChangeRow:
    return LessonChangeRow(
        id=9,
        at=NOW,
        lesson=name,
        source="graduated",
        target="active",
        reason="evaluation fell",
        actor="curriculum",
        figures={},
        epoch=1,
        policy_step=100,
    )


def test_every_transition_is_reported_with_its_reason() -> None:
    changes = (*moves(("one", "active"), ("one", "graduated")), fell_back("one"))

    assert lesson_progress((), changes).milestones == [
        "one unlocks at version 0 (because)",
        "one graduates at version 25 (because)",
        "one falls back at version 100 (evaluation fell)",
    ]


@pytest.mark.parametrize(
    ("graduated", "success", "reached"),
    [
        (LEARNT, 0.9, True),
        (LEARNT, 0.89, False),
        (LEARNT, None, False),
        (LEARNT[:2], 1.0, False),
        ((*LEARNT[:2], LEARNT[0]), 1.0, False),
        ((), 1.0, False),
    ],
)
def test_three_lessons_and_the_first_of_them_are_the_target(
    graduated: tuple[tuple[str, str], ...], success: float | None, reached: bool
) -> None:
    rows = (lesson("three"), lesson("one", success), lesson("two"), lesson("four"))

    assert lesson_progress(rows, moves(*graduated)).has_reached_target is reached


def test_a_lesson_that_was_reactivated_counts_as_graduated() -> None:
    rows = (lesson("one", 0.95), lesson("two", 0.4), lesson("three"))
    progress = lesson_progress(rows, (*moves(*LEARNT), fell_back("two")))

    assert progress.has_reached_target
    assert progress.share == 1.0


def test_a_run_of_one_lesson_has_it_as_target() -> None:
    progress = lesson_progress((lesson("one", 0.95),), moves(LEARNT[0]))

    assert progress.has_reached_target
    assert progress.summary == "1 of 1 lessons have graduated, 1 required, one evaluated at 95.0 %"


def test_all_graduated_lessons_are_counted_although_fewer_are_required() -> None:
    four = tuple(lesson(name, 0.95) for name in ("one", "two", "three", "four"))
    progress = lesson_progress(four, moves(*LEARNT, ("four", "graduated")))

    assert progress.summary.startswith("4 of 4 lessons have graduated, 3 required")


def test_a_run_without_lessons_has_not_reached_the_target() -> None:
    assert not lesson_progress((), ()).has_reached_target
    assert lesson_progress((), ()).summary == "0 of 0 lessons have graduated, 0 required"


def test_a_demo_has_started_with_the_first_answers() -> None:
    assert not lesson_progress((lesson("one", samples=0),), ()).has_begun
    assert lesson_progress((lesson("one"),), ()).has_begun


def test_a_lesson_is_a_row_of_the_table() -> None:
    rows = lesson_progress((lesson("one", 0.973),), ()).rows

    assert rows["one"].split() == ["active", "evaluated", "97.3", "%", "drawn", "25.0", "%"]
