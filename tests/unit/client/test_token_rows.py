"""A batch of groups becomes rows of tokens, or an error that names the field."""

import json
from typing import Any

import pytest

from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError
from rolldeck.group_encoding import pack_group
from rolldeck.integrations.token_rows import token_rows
from rolldeck.wire import (
    BatchAnswer,
    BatchHead,
    encode,
)

HEAD = BatchHead(
    id="b", ordinal=4, fence=1, kind="groups", count=1, lease_seconds=9, epoch=1, policy_step=2
)
GOOD: dict[str, Any] = {
    "tokens": [[5, 6, 7, 8], [5, 9, 3]],
    "masks": [[-100, 6, -100, 8], [-100, -100, 3]],
    "inference_logprobs": [[1.0, -0.5, 1.0, -0.25], [1.0, 1.0, -2.0]],
    "scores": [1.0, 0.0],
    "policy_step": 2,
}


def batch(codec: str, *groups: dict[str, Any]) -> Batch:
    packed = [
        encode(pack_group(each)) if codec == "msgpack" else json.dumps(each).encode()
        for each in groups
    ]
    answer = BatchAnswer(batch=HEAD, codecs=[codec] * len(groups), items=packed)  # type: ignore[list-item]
    return Batch.decode(encode(answer))


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_row_has_the_tokens_masks_and_log_probabilities_of_its_sequence(codec: str) -> None:
    other = {**GOOD, "scores": [0.5, 0.25], "advantages": [[0.5] * 4, [-0.5] * 3]}
    rows = token_rows(batch(codec, GOOD, other))

    assert [row.tokens.tolist() for row in rows] == [*GOOD["tokens"], *GOOD["tokens"]]
    assert rows[0].trained.tolist() == [False, True, False, True]
    assert rows[0].logprobs.tolist() == [0.0, -0.5, 0.0, -0.25]
    assert [row.prompt_tokens for row in rows] == [1, 2, 1, 2]
    assert [row.score for row in rows] == [1.0, 0.0, 0.5, 0.25]
    assert [row.advantage for row in rows] == [None, None, 0.5, -0.5]
    assert [row.group for row in rows] == [0, 0, 1, 1]
    assert {row.policy_step for row in rows} == {2}


def test_a_sequence_without_trained_tokens_keeps_its_score() -> None:
    (row, _) = token_rows(batch("json", {**GOOD, "masks": [[-100] * 4, [-100, -100, 3]]}))

    assert (row.trained.any(), row.prompt_tokens, row.score) == (False, 3, 1.0)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_sequence_whose_advantage_is_set_to_zero_trains_nothing(codec: str) -> None:
    overrides = [{}, {"set_advantage_to_zero": True}]
    first, second = token_rows(batch(codec, {**GOOD, "overrides": overrides}))

    assert first.trained.tolist() == [False, True, False, True]
    assert (second.trained.any(), second.logprobs.any(), second.score) == (False, False, 0.0)


@pytest.mark.parametrize("advantages", [None, [[0.5] * 4, [0.5] * 3, []]])
def test_a_sequence_without_tokens_is_left_out(advantages: Any) -> None:
    empty = {name: [*GOOD[name], []] for name in ("tokens", "masks", "inference_logprobs")}
    group = {**GOOD, **empty, "scores": [1.0, 0.0, 5.0], "advantages": advantages}
    rows = token_rows(batch("json", group))

    assert [(row.score, row.advantage) for row in rows] == [
        (1.0, advantages and 0.5),
        (0.0, advantages and 0.5),
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"generation_params": {"temperature": 0.7}}, None),
        ({"overrides": [{"temperature": 0.7}, {}]}, None),
        ({"overrides": [{}, {"temperature": 1}]}, "sequence 1 was sampled with 1, but"),
        ({"group_overrides": {"temperature": 0.5}}, "sequence 0 was sampled with 0.5, but"),
    ],
)
def test_a_stated_temperature_must_be_that_of_the_trainer(
    fields: dict[str, Any], problem: str | None
) -> None:
    answered = batch("json", GOOD, {**GOOD, **fields})
    assert len(token_rows(answered)) == 4

    if problem is None:
        assert len(token_rows(answered, temperature=0.7)) == 4
    else:
        expected = rf"^groups\[1\] of batch 4, temperature: {problem} temperature is 0.7$"
        with pytest.raises(InvalidMessageError, match=expected):
            token_rows(answered, temperature=0.7)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"inference_logprobs": None}, "inference_logprobs: missing"),
        ({"inference_logprobs": []}, "inference_logprobs: missing"),
        ({"inference_logprobs": [[0.0] * 4, [0.0] * 2]}, "inference_logprobs: rows and tokens"),
        ({"masks": [[5, 6, 7, 8], [-100, 9, 3]]}, "masks: the first token of sequence 0"),
        ({"scores": [1.0]}, "scores: 1 scores for 2 sequences"),
        ({"advantages": [[0.5, 0.5, 0.1, 0.5], [0.5] * 3]}, "advantages: must be one number"),
        ({"images": [None, "iVBO"]}, "images: only text"),
        ({"tokens": [[5, 6, 7, 80], [5, 9, 3]]}, "tokens: 80 is outside the 16 tokens"),
        (
            {"tokens": [[5, 6, 7, 8], [5]], "masks": [[-100] * 4, [-100]]}
            | {"inference_logprobs": [[0.0] * 4, [0.0]]},
            "tokens: sequence 1 has 1, at least 2 required",
        ),
    ],
)
def test_an_unusable_group_is_refused_by_its_field(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidMessageError, match=rf"^groups\[1\] of batch 4, {problem}"):
        token_rows(batch("json", GOOD, {**GOOD, **changed}), vocabulary=16)
