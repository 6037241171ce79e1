"""Training traces of OpenEnv become trajectory groups."""

from typing import Any

import pytest

from rolldeck.groups import InvalidGroupError
from rolldeck.training_traces import group_of_traces


def turn(node: str, prompt: list[int], completion: list[int], **changes: Any) -> dict[str, Any]:
    return {
        "node_id": node,
        "prompt_token_ids": prompt,
        "completion_token_ids": completion,
        "per_token_logps": [-0.5] * len(completion),
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
    } | changes


def trace(*turns: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": 1, "turns": list(turns)}


def test_turns_that_continue_a_prefix_are_one_sequence() -> None:
    first, second = turn("a", [1, 2], [3, 4]), turn("b", [1, 2, 3, 4, 9], [5])

    group = group_of_traces([trace(first, second)], [0.5], version=(2, 7), env_id=3)

    assert group["tokens"] == [[1, 2, 3, 4, 9, 5]]
    assert group["masks"] == [[-100, -100, 3, 4, -100, 5]]
    assert group["inference_logprobs"] == [[1.0, 1.0, -0.5, -0.5, 1.0, -0.5]]
    assert group["scores"] == [0.5]
    assert (group["epoch"], group["policy_step"], group["env_id"]) == (2, 7, 3)


def test_a_rewritten_context_begins_another_sequence_with_the_same_reward() -> None:
    rewritten = trace(turn("a", [1, 2], [3]), turn("b", [1, 8], [4]))

    group = group_of_traces([rewritten, trace(turn("c", [6], [7]))], [1.0, 0.0])

    assert group["tokens"] == [[1, 2, 3], [1, 8, 4], [6, 7]]
    assert group["scores"] == [1.0, 1.0, 0.0]
    assert group["overrides"] == [{"rollout": 0}, {"rollout": 0}, {"rollout": 1}]


def test_masked_turns_are_context_alone() -> None:
    masked = turn("a", [1], [2, 3], loss_mask=[0, 0, 0])
    partly = turn("b", [1, 2, 3], [4, 5], loss_mask=[0, 0, 0, 1, 0])

    group = group_of_traces([trace(masked, partly)], [1.0])

    assert group["masks"] == [[-100, -100, -100, 4, -100]]
    with pytest.raises(InvalidGroupError, match="no token is trained on"):
        group_of_traces([trace(masked)], [1.0])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"per_token_logps": [-0.5]}, "traces.0.turns[0].per_token_logps"),
        ({"per_token_logps": [-0.5, 0.5]}, "traces.0.turns[0].per_token_logps[1]"),
        ({"per_token_logps": [-0.5, float("nan")]}, "traces.0.turns[0].per_token_logps[1]"),
        ({"loss_mask": [0, 1]}, "traces.0.turns[0].loss_mask"),
        ({"loss_mask": [1, 0, 1]}, "traces.0.turns[0].loss_mask"),
        ({"loss_mask": [0, 2, 1]}, "traces.0.turns[0].loss_mask[1]"),
        ({"prompt_token_ids": []}, "traces.0.turns[0].prompt_token_ids"),
        ({"prompt_token_ids": [-1]}, "traces.0.turns[0].prompt_token_ids[0]"),
        ({"node_id": ""}, "traces.0.turns[0].node_id"),
        ({"chess": 1}, "traces.0.turns[0]"),
    ],
)
def test_an_invalid_turn_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidGroupError) as refused:
        group_of_traces([trace(turn("a", [1], [2, 3], **changes))], [1.0])

    assert refused.value.field == field


def test_another_schema_repeated_ids_and_missing_rewards_are_refused() -> None:
    good = turn("a", [1], [2])
    with pytest.raises(InvalidGroupError) as refused:
        group_of_traces([{"schema_version": 2, "turns": [good]}], [1.0])
    assert refused.value.field == "traces.0.schema_version"
    with pytest.raises(InvalidGroupError, match="'a' occurs twice"):
        group_of_traces([trace(good, good)], [1.0])
    with pytest.raises(InvalidGroupError, match="2 rewards for 1 traces"):
        group_of_traces([trace(good)], [1.0, 2.0])
