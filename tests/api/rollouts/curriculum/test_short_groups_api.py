"""Failed rollouts of lessons appear in the ledger, the lessons, the series and the bias."""

from typing import Any

import pytest

from buffer.items import services
from buffer.items.models import ShortGroup
from buffer.items.queries import admission_remaining, ledger_problems
from rollouts.metrics.models import MetricSeries
from tests.lesson_factories import Class, lesson, written_group

pytestmark = pytest.mark.django_db


def short(example: str, rewards: list[float], *, failed: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "example": example,
        "prompt": f"{example}>",
        "failed": {"rollout_failed": failed},
        "rewards": rewards,
        "tokens": [10 * (place + 1) for place in range(len(rewards))],
        "is_kept": True,
        **fields,
    }


def reported(lessons: Class, **fields: Any) -> Any:
    arguments: dict[str, Any] = {
        "generations": 4,
        "sizes": [3, 4],
        "failed": {"rollout_failed": 2, "rollout_unscored": 1},
        "refilled": 1,
        "lost_siblings": 2,
        "short_groups": [
            short("x", [1.0, 0.0, 1.0]),
            short("y", [1.0, 0.0], failed=2, is_kept=False),
        ],
        **fields,
    }
    return lessons.report("a", [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], **arguments)


def test_losses_are_counted_once_beside_the_balance_of_the_ledger() -> None:
    lessons = Class({"a": lesson(short_groups="shrink"), "b": lesson()})
    outcome = reported(lessons)
    assert outcome.status_code == 200, outcome.content

    ledger = lessons.get("ledger")
    assert ledger["failed"] == {"rollout_failed": 2, "rollout_unscored": 1}
    assert (ledger["refilled"], ledger["lost_siblings"]) == (1, 2)
    assert ledger["groups"]["accepted"] == 0
    assert ledger["groups"]["balanced"]
    assert ledger["environments"] == []
    assert ledger_problems(lessons.run.pk) == []
    row = lessons.lessons()["a"]
    assert (row["failed"], row["refilled"], row["lost_siblings"]) == (3, 1, 2)
    assert [row["short_groups"] for row in lessons.lessons().values()] == ["shrink", "drop"]


def test_a_repeated_outcome_counts_its_losses_once() -> None:
    lessons = Class({"a": lesson()})
    body = lessons.outcome(
        [1.0] * 4, generations=4, failed={"rollout_failed": 1}, short_groups=[short("x", [1.0])]
    )
    for _ in range(3):
        assert lessons.post("lessons/a/outcomes", body).status_code == 200

    assert lessons.get("ledger")["failed"] == {"rollout_failed": 1}
    assert ShortGroup.objects.count() == 1


def test_an_outcome_without_complete_groups_counts_its_losses() -> None:
    lessons = Class({"a": lesson()})
    answer = lessons.report(
        "a", [], generations=4, failed={"tool_failed": 4}, error="the tool is gone"
    )
    assert answer.status_code == 200, answer.content
    assert lessons.get("ledger")["failed"] == {"tool_failed": 4}
    assert lessons.lessons()["a"]["last_error"] == "the tool is gone"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sizes": [3, 3]}, "sizes"),
        ({"sizes": [0, 7]}, "sizes[0]"),
        ({"sizes": []}, "rewards"),
        ({"failed": {"Rollout failed!": 1}}, "failed"),
        ({"failed": {"rollout_failed": -1}}, "failed"),
        ({"refilled": -1}, "refilled"),
        ({"short_groups": [short("x", [float(10**40)])]}, "short_groups[0].rewards[0]"),
        ({"short_groups": [short("x" * 201, [1.0])]}, "short_groups[0].example"),
    ],
)
def test_an_inconsistent_outcome_is_refused_whole(fields: dict[str, Any], field: str) -> None:
    lessons = Class({"a": lesson()})
    answer = reported(lessons, **fields)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field)
    assert lessons.get("ledger")["failed"] == {}
    assert not ShortGroup.objects.exists()


def test_evaluations_have_no_sizes() -> None:
    lessons = Class({"a": lesson()})
    lessons.report("a", [1.0] * 64)
    answer = lessons.finish(lessons.task(), successes=32, sizes=[32])

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "sizes"


def test_only_the_newest_short_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SHORT_GROUPS_KEPT", 3)
    lessons = Class({"a": lesson()})
    for _ in range(4):
        reported(lessons)

    assert ShortGroup.objects.count() == 3
    assert lessons.get("ledger")["failed"]["rollout_failed"] == 8


@pytest.mark.django_db(transaction=True)
def test_the_share_of_failed_rollouts_is_a_series() -> None:
    lessons = Class({"a": lesson()})
    reported(lessons)

    names = MetricSeries.objects.filter(run=lessons.run).values_list("name", flat=True)
    assert "rollout/a/failed_share" in set(names)


def test_the_bias_compares_the_policies_on_the_run_s_own_groups() -> None:
    lessons = Class({"a": lesson(short_groups="shrink")}, least_group_size=3)
    lessons.run.refresh_from_db()
    for _ in range(30):
        push = written_group(lessons.run, "a", "ab>", ["ba", "ab", "b", "a"])
        answer = lessons.push(push)
        assert answer.status_code == 200, answer.content
    for _ in range(30):
        reported(lessons)
    found = lessons.get("bias")["short_groups"]

    assert found["groups"]["items"] == 60
    assert (found["kept"], found["failed"]) == (30, 90)
    assert found["groups"]["environments"] == {"a": 60}
    costs = {one["policy"]: one["lost"] for one in found["costs"]}
    assert costs == {"drop": 90 + 150, "shrink": 90 + 60, "refill": 90}
    assert [one["example"] for one in found["prompts"]] == ["y", "x"]
    assert found["prompts"][0] | {"environment": "a", "prompt": "y>"} == found["prompts"][0]
    assert "incomplete groups are" in found["summary"]


def test_a_run_without_failures_has_no_short_groups() -> None:
    assert Class({"a": lesson()}).get("bias")["short_groups"] is None


@pytest.mark.parametrize(("rule", "has_room"), [("shrink", True), ("drop", False)])
def test_sizes_that_fill_no_batch_leave_room_for_another_group(rule: str, has_room: bool) -> None:
    """Groups of three fill no batch of eight; the buffer would be full for ever."""
    lessons = Class({"a": lesson(short_groups=rule)}, buffer={"batch_size": 8, "max_staleness": 0})
    lessons.run.refresh_from_db()
    for _ in range(4):
        push = written_group(lessons.run, "a", "ab>", ["ba", "ab", "b"])
        assert lessons.push(push).status_code == 200

    assert (admission_remaining(lessons.run.pk) > 0) is has_room
    push = written_group(lessons.run, "a", "ab>", ["ba", "ab"])
    assert lessons.push(push).status_code == 200
    assert admission_remaining(lessons.run.pk) <= 0
