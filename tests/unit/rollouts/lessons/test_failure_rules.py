"""Failures by cause, and the budgets that they exhaust."""

from typing import Any

import pytest

from rollouts.lessons.rules.failures import (
    Exhausted,
    Failures,
    Task,
    exhausted,
    failures_by_cause,
    probe_wait,
    tally_of,
)
from runs.config.rules.failure_budget import Cause, FailureBudget, FailureLimit

LIMIT = FailureLimit(share=0.5, failures=10)
BUDGET = FailureBudget(inference=LIMIT, environment=LIMIT, tool=LIMIT, reward=LIMIT)


def tasks(
    failed: int, rollouts: int, *, outcomes: int = 3, lesson: str = "a", message: str = "no"
) -> list[Task]:
    """Return failing tasks, and one without failures before them."""
    each, rest = divmod(failed, outcomes)
    failures = [each + (place < rest) for place in range(outcomes)]
    return [
        Task(lesson, rollouts - failed, None),
        *(Task(lesson, count, Failures(count, message)) for count in failures),
    ]


def judged(drawn: str = "ab", budget: FailureBudget = BUDGET, **causes: Any) -> list[Exhausted]:
    return exhausted(budget, causes, set(drawn))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("inference_failed", "inference"),
        ("tool_failed", "tool"),
        ("reward_failed", "reward"),
        ("reward_timeout", "reward"),
        ("rollout_unscored", "reward"),
        ("environment_failed", "environment"),
        ("kind_of_another_package", "environment"),
    ],
)
def test_every_kind_of_failure_has_a_cause(kind: str, cause: Cause) -> None:
    found = failures_by_cause({kind: 3}, {kind: "the error"})

    assert found == {cause: Failures(3, "the error")}


def test_failures_of_one_cause_are_added() -> None:
    found = failures_by_cause(
        {"reward_timeout": 2, "reward_failed": 3, "tool_failed": 0}, {"reward_timeout": "late"}
    )

    assert found == {"reward": Failures(5, "reward failed")} or found == {
        "reward": Failures(5, "late")
    }
    assert found["reward"].rollouts == 5


@pytest.mark.parametrize(
    ("found", "exceeds"),
    [
        (tasks(10, 10), True),
        (tasks(9, 9), False),  # too few
        (tasks(100, 100, outcomes=2), False),  # two large tasks are no outage
        (tasks(10, 1_000), True),  # the newest rollouts count
        ([*tasks(10, 10), Task("a", 10, None)], True),
        ([*tasks(10, 10), Task("a", 11, None)], False),  # too small a share
        (tasks(5, 5) + tasks(5, 500), False),
    ],
)
def test_both_limits_and_three_tasks_are_required(found: list[Task], exceeds: bool) -> None:
    assert (tally_of(found, LIMIT) is not None) is exceeds


def test_no_failures_exceed_a_limit_of_zero() -> None:
    assert tally_of(tasks(1_000, 1_000), FailureLimit(failures=0)) is None


def test_the_inference_server_concerns_the_run_although_each_lesson_has_few_failures() -> None:
    [found] = judged(
        inference=[*tasks(6, 6, outcomes=2), *tasks(6, 6, outcomes=2, lesson="b", message="gone")]
    )

    assert (found.cause, found.lessons, found.failed, found.rollouts) == ("inference", (), 12, 12)
    assert found.reason == "the inference server fails: 12 of 12 rollouts failed: gone"


def test_a_failing_lesson_stops_alone() -> None:
    [found] = judged(tool=[*tasks(20, 20), Task("b", 50, None)])

    assert (found.cause, found.lessons) == ("tool", ("a",))


def test_the_run_is_concerned_if_every_drawn_lesson_fails() -> None:
    [found] = judged(
        environment=tasks(20, 20, message="closed"),
        reward=tasks(30, 30, lesson="b", message="the judge is away"),
    )

    assert (found.cause, found.lessons, found.message) == ("reward", (), "the judge is away")


def test_lessons_that_are_not_drawn_do_not_count() -> None:
    assert judged("a", tool=tasks(20, 20, lesson="b")) == []
    [found] = judged("a", tool=[*tasks(20, 20), Task("b", 50, None)])
    assert found.lessons == ()


def test_the_worst_cause_of_a_lesson_is_named() -> None:
    [found] = judged(tool=tasks(20, 20), reward=tasks(21, 21))

    assert found.cause == "reward"


def test_a_server_that_does_not_answer_is_named_without_numbers() -> None:
    silent = Exhausted(cause="inference", rollouts=0, failed=0, message="no answer for 130 s")

    assert silent.reason == "the inference server fails: no answer for 130 s"


def test_probes_become_rarer() -> None:
    waits = [probe_wait(step) for step in (0, 1, 2, 5, 500)]

    assert waits == [10.0, 20.0, 40.0, 300.0, 300.0]
