"""Facts of groups: keys and values from metadata, overrides and custom fields."""

from typing import Any

import pytest

from buffer.inspect.rules.facts import (
    LARGEST_FIELD,
    LONGEST_TEXT,
    MOST_FACTS,
    MOST_VALUES,
    facts_of,
    is_fact,
)
from buffer.inspect.rules.group_digest import digest
from tests.unit.buffer.inspect.test_group_views import opened


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, {}),
        ({"metadata": {"difficulty": 4}}, {"meta.difficulty": 4}),
        ({"metadata": {"a": {"b": "x"}}}, {"meta.a.b": "x"}),
        ({"metadata": [{"n": 1}, {"n": 2}]}, {"meta.n": [1, 2]}),
        ({"metadata": [{"n": 1}, {"n": 1}]}, {"meta.n": 1}),
        ({"metadata": [{"n": 1}, {"n": True}]}, {"meta.n": [1, True]}),
        ({"metadata": "text"}, {}),
        ({"difficulty": 4.5}, {"meta.difficulty": 4.5}),
        ({"env_metrics": {"acc": [1, 0]}}, {}),
        ({"rewards": [0.5, 1]}, {"meta.rewards": [0.5, 1]}),
        ({"group_overrides": {"level": "easy"}}, {"override.level": "easy"}),
        (
            {"group_overrides": {"level": "easy"}, "overrides": [{"level": "hard"}, {}]},
            {"override.level": ["easy", "hard"]},
        ),
        (
            {"overrides": [{"set_advantage_to_zero": True}, {}]},
            {"override.set_advantage_to_zero": True},
        ),
        ({"generation_params": {"temperature": 0.7}}, {"meta.generation_params.temperature": 0.7}),
        ({"metadata": {"with space": 1, 'a"b': 2, "a:b": 3, "": 4, "ü": 5}}, {"meta.ü": 5}),
        ({"metadata": {"none": None, "large": 1e300, "list": [1, 2, 3]}}, {}),
        ({"metadata": {"nul": "a\x00b"}}, {"meta.nul": "a\ufffdb"}),
        ({"lesson": "sums", "worker": "w0", "is_correct": [True, False]}, {}),
    ],
    ids=str,
)
def test_facts_are_texts_numbers_and_booleans_by_key(
    fields: dict[str, Any], facts: dict[str, Any]
) -> None:
    assert facts_of(opened(**fields)) == facts


def test_facts_are_bounded() -> None:
    many = {f"key-{number}": number for number in range(MOST_FACTS + 9)}
    nested: Any = 1
    for _ in range(20):
        nested = {"a": nested}
    sequences = MOST_VALUES + 9
    rows = [[1, 2]] * sequences
    varied = opened(
        tokens=rows,
        masks=rows,
        scores=[0.0] * sequences,
        n=list(range(sequences)),
    )

    assert len(facts_of(opened(metadata=many))) == MOST_FACTS
    assert facts_of(opened(metadata={"text": "x" * 999})) == {"meta.text": "x" * LONGEST_TEXT}
    assert facts_of(opened(metadata=nested)) == {}
    assert facts_of(opened(metadata={"a": 1}, trace=["x" * LARGEST_FIELD])) == {"meta.a": 1}
    assert facts_of(opened(metadata={"a": 1, "b": "x" * LARGEST_FIELD})) == {}
    assert facts_of(varied)["meta.n"] == list(range(MOST_VALUES))


@pytest.mark.parametrize(
    ("key", "can_be"),
    [
        ("meta.a", True),
        ("override.a.b", True),
        ("meta", False),
        ("meta.", False),
        ("meta.a b", False),
        ("meta.a,b", False),
        ("other.a", False),
        ("meta." + "a" * 100, False),
    ],
)
def test_keys_of_facts(key: str, can_be: bool) -> None:
    assert is_fact(key) is can_be


@pytest.mark.parametrize(
    ("fields", "correct", "advantages"),
    [
        ({}, None, []),
        ({"is_correct": [True, False]}, 1, []),
        ({"is_correct": [True]}, None, []),
        ({"is_correct": [True, None]}, None, []),
        ({"advantages": [[-1.0], [1.5]]}, None, [-1.0, 1.5]),
        ({"advantages": [[9.0, 1.0, 2.0], [9.0, 1.0, 1.0, 1.0]]}, None, [1.5, 1.0]),
    ],
    ids=str,
)
def test_digests_have_correctness_and_advantages(
    fields: dict[str, Any], correct: int | None, advantages: list[float]
) -> None:
    made = digest(opened(**fields))

    assert (made.correct, made.advantages) == (correct, advantages)
