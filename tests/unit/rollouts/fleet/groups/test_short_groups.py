"""Groups of which rollouts fail or have no score are dropped, shrunken or refilled."""

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.fleet.groups.outcomes import outcome_of
from rollouts.fleet.groups.short_groups import Losses
from rollouts.tasks.rules.task import EpisodeFailed, Reply, Turn

MakeBench = Callable[..., Any]


def flaky(rule: str, **kwargs: Any) -> dict[str, Any]:
    return {
        "spec": "module:odd_token_environments:Flaky",
        "kwargs": kwargs,
        "short_groups": rule,
        "least_group_size": 2,
        "most_refills": 2,
    }


def sampled(at: Any, lesson: str = "odd", **changes: Any) -> tuple[list[int], Losses]:
    """Sample four groups of four; return their sizes and what was lost."""
    found: list[Losses] = []
    arguments = {"n_generations": 4, "on_losses": found.append} | changes
    batch, _ = at.sample(lesson, **arguments)
    return [len(group.rollouts) for group in batch.groups] if batch else [], found[0]


@pytest.mark.parametrize(
    ("rule", "fails", "sizes", "failed", "siblings", "refilled"),
    [
        ("drop", {"fails": [1]}, [4, 4, 4], 1, 3, 0),
        ("shrink", {"fails": [1]}, [3, 4, 4, 4], 1, 0, 0),
        ("shrink", {"fails": [0, 2, 3]}, [4, 4, 4], 3, 1, 0),
        ("shrink", {"fails": [0, 3], "numbers": [1, 2]}, [4, 2, 2, 4], 4, 0, 0),
        ("refill", {"fails": [1]}, [4, 4, 4, 4], 1, 0, 1),
        ("refill", {"fails": [0, 1, 2, 3], "numbers": [0, 3]}, [4, 4, 4, 4], 8, 0, 8),
        ("refill", {"fails": [0, 1], "calls": 2}, [4, 4, 4, 4], 4, 0, 2),
        ("refill", {"fails": [0, 1], "calls": 3}, [4, 4, 4], 6, 2, 0),
        ("refill", {"fails": [0], "kind": "prompt_too_long"}, [4, 4, 4], 1, 3, 0),
        ("drop", {"fails": [1], "kind": "nan"}, [4, 4, 4], 1, 3, 0),
        ("shrink", {"fails": [1], "kind": "nan"}, [3, 4, 4, 4], 1, 0, 0),
        ("refill", {"fails": [1], "kind": "nan"}, [4, 4, 4, 4], 1, 0, 1),
    ],
)
def test_the_policy_decides_about_groups_with_failed_rollouts(
    bench: MakeBench,
    rule: str,
    fails: dict[str, Any],
    sizes: list[int],
    failed: int,
    siblings: int,
    refilled: int,
) -> None:
    at = bench({"odd": flaky(rule, **fails)}, model={"tokenizer": "bytes"}, group_size=4)
    found, losses = sampled(at)

    assert found == sizes
    kind = {"nan": "rollout_unscored"}.get(fails.get("kind", ""), fails.get("kind"))
    assert losses.failed == {kind or "rollout_failed": failed}
    assert (losses.siblings, losses.refilled) == (siblings, refilled)
    assert losses.dropped == 4 - len(sizes)
    [event] = [one for one in at.events.pop() if one.kind == (kind or "rollout_failed")][:1]
    assert event.level == "warning"


def test_only_failed_rollouts_are_sampled_again_with_other_draws(bench: MakeBench) -> None:
    at = bench(
        {"odd": flaky("refill", fails=[0, 1], numbers=[1, 3])},
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    sampled(at)
    first, again = at.worker._environments["odd"].requests

    assert list(again.numbers) == [1, 3]
    assert (first.generations, again.generations) == (4, 2)
    assert first.seed != again.seed
    assert first.problem_seed == again.problem_seed


def test_a_kind_that_the_platform_does_not_store_counts_as_a_failure(bench: MakeBench) -> None:
    at = bench(
        {"odd": flaky("drop", fails=[1], kind="Sandbox-7 ended")},
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    _, losses = sampled(at)

    assert losses.failed == {"rollout_failed": 1}
    assert losses.groups[0].failed == {"rollout_failed": 1}
    assert at.events.pop()[0].kind == "Sandbox-7 ended"


def test_complete_groups_outlive_an_environment_that_fails_in_a_refill(bench: MakeBench) -> None:
    at = bench(
        {"odd": flaky("refill", fails=[1], raises_at=2)},
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    sizes, losses = sampled(at)

    assert sizes == [4, 4, 4, 4]
    assert "the sandbox is gone" in losses.faults[1].message


def test_an_evaluation_never_shrinks_and_may_refill(bench: MakeBench) -> None:
    at = bench(
        {
            "shrunken": flaky("shrink", fails=[1]),
            "refilled": flaky("refill", fails=[1]),
        },
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    assert sampled(at, "shrunken", mode="eval")[0] == [4, 4, 4]
    assert sampled(at, "refilled", mode="eval")[0] == [4, 4, 4, 4]


def test_a_failed_conversation_of_a_task_costs_only_itself(bench: MakeBench) -> None:
    at = bench(
        {"r": {"spec": "task:reverse", "short_groups": "shrink"}},
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    task = at.worker.load_environment("r")._task
    replies = iter(range(100))

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(task, name)

        def reply(self, example: Any, turns: list[Turn]) -> Reply:
            if next(replies) == 5:
                raise EpisodeFailed("tool_failed", "no tool")
            reply: Reply = task.reply(example, turns)
            return reply

    at.worker._environments["r"]._task = Broken()
    sizes, losses = sampled(at, "r")

    assert sorted(sizes) == [3, 4, 4, 4]
    assert losses.failed == {"tool_failed": 1}


def test_an_outcome_has_the_sizes_and_the_short_groups(bench: MakeBench) -> None:
    at = bench(
        {"odd": flaky("shrink", fails=[1], numbers=[0, 1])},
        model={"tokenizer": "bytes"},
        group_size=4,
    )
    found: list[Losses] = []
    batch, metrics = at.sample("odd", n_generations=4, on_losses=found.append)
    at.worker.update_training_stats("odd", batch, metrics, found[0])
    [(_, outcome)] = at.curriculum.outcomes

    assert outcome.sizes == [3, 3, 4, 4]
    assert outcome.failed == {"rollout_failed": 2}
    assert [one.example for one in outcome.short_groups] == ["0", "1"]
    assert all(one.is_kept and len(one.rewards) == 3 for one in outcome.short_groups)
    assert outcome.short_groups[0].failed == {"rollout_failed": 1}


def test_a_lesson_of_which_all_rollouts_fail_has_an_outcome(bench: MakeBench) -> None:
    losses = Losses(siblings=3)
    losses.failed["rollout_failed"] = 5
    outcome = outcome_of(
        None,
        lesson="odd",
        mode="train",
        worker_id="w",
        policy_version=(1, 2),
        draw=Draw(3),
        generations=4,
        error="rollout 1",
        losses=losses,
    )
    assert (outcome.failed, outcome.lost_siblings) == ({"rollout_failed": 5}, 3)
    assert outcome.rewards == []


@pytest.mark.parametrize(("rule", "at_most"), [("drop", 0.40), ("shrink", 0.06), ("refill", 0.06)])
def test_failures_cost_a_share_of_rollouts_by_policy(
    bench: MakeBench, rule: str, at_most: float
) -> None:
    """Of groups of 8 of which 5 % of rollouts fail, a third is incomplete."""
    at = bench({"odd": flaky(rule, share=0.05)}, model={"tokenizer": "bytes"}, group_size=8)
    lost = trained = 0
    for first in range(0, 320, 16):
        sizes, losses = sampled(at, n_examples=16, n_generations=8, rng=Draw(1, first))
        lost += sum(losses.failed.values()) + losses.siblings
        trained += sum(sizes)
    share = lost / (lost + trained)

    assert share <= at_most
    assert share >= {"drop": 0.28}.get(rule, 0.03)


def test_a_lesson_that_stops_on_failures_stops_in_a_refill(bench: MakeBench) -> None:
    at = bench({"odd": flaky("refill", fails=[1])}, model={"tokenizer": "bytes"}, group_size=4)
    environment = at.worker.load_environment("odd")
    sample = environment.sample

    def stop_at_second(*arguments: Any) -> Any:
        if len(environment.requests) == 1:
            raise LessonFailed("reward_failed", "no judge", stops=True)
        return sample(*arguments)

    environment.sample = stop_at_second
    with pytest.raises(LessonFailed, match="no judge"):
        sampled(at)
