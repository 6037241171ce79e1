"""Whether a group has an advantage other than 0, from which a trainer learns."""

import json
from typing import Any

import pytest

from buffer.inspect.rules.group_digest import digest, has_gradient
from rolldeck.groups import GroupArrays, read

ZERO = {"set_advantage_to_zero": True}
OWN, PROMPT = [-100, 2, 3], [-100, -100, -100]


def opened(**fields: Any) -> GroupArrays:
    content = {"tokens": [[1, 2, 3], [1, 2, 4]], "masks": [OWN, OWN], "scores": [1.0, 1.0]}
    return read(json.dumps(content | fields).encode(), "json")


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "equal scores": ({}, False),
    "different scores": ({"scores": [0.0, 1.0]}, True),
    "scores of opposite extremes": ({"scores": [1e308, -1e308]}, True),
    "every advantage set to zero": ({"scores": [0.0, 1.0], "overrides": [ZERO, ZERO]}, False),
    "one advantage set to zero": ({"scores": [0.0, 1.0], "overrides": [ZERO, {}]}, True),
    "no trained token": ({"scores": [0.0, 1.0], "masks": [PROMPT, PROMPT]}, False),
    "own advantages for sequences": ({"advantages": [[0.5], [-0.5]]}, True),
    "own advantages of 0 for sequences": (
        {"scores": [0.0, 1.0], "advantages": [[0.0], [0.0]]},
        False,
    ),
    "own advantages for tokens": ({"advantages": [[0, 0, 1], [0, 0, 0]]}, True),
    "own advantages for prompts only": ({"advantages": [[1, 0, 0], [1, 0, 0]]}, False),
    "own advantages, set to zero": (
        {"advantages": [[0.5], [-0.5]], "overrides": [ZERO, ZERO]},
        False,
    ),
    "one sequence with a score": ({"tokens": [[1, 2, 3]], "masks": [OWN], "scores": [2.0]}, True),
    "one sequence of score 0": ({"tokens": [[1, 2, 3]], "masks": [OWN], "scores": [0.0]}, False),
    "a teacher's tokens": (
        {
            "distill_token_ids": [[[1], [2], [3]], [[1], [2], [4]]],
            "distill_logprobs": [[[-1], [-1], [-1]], [[-1], [-1], [-1]]],
        },
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_group_has_a_gradient_if_a_trained_token_has_an_advantage(case: str) -> None:
    fields, expected = CASES[case]

    group = opened(**fields)

    assert has_gradient(group) is expected
    assert digest(group).has_gradient is expected
