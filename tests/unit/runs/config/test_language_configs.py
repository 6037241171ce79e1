"""Settings of lessons: stops, group sizes, and their errors by path."""

from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.config.rules import run_config
from runs.config.rules.run_config import InvalidRunConfig, RunConfig


def parsed(lessons: dict[str, dict[str, Any]], *, batch_size: int = 16, **fields: Any) -> RunConfig:
    named = {name: {"spec": "task:sort", **lesson} for name, lesson in lessons.items()}
    raw = {"language": {"lessons": named, **fields}, "buffer": {"batch_size": batch_size}}
    return run_config.parse(raw)


def refusal(lessons: dict[str, dict[str, Any]], **fields: Any) -> InvalidRunConfig:
    with pytest.raises(InvalidRunConfig) as caught:
        parsed(lessons, **fields)
    return caught.value


@pytest.mark.parametrize(
    ("lesson", "field", "limit"),
    [
        ({"prompts_per_batch": 0}, "prompts_per_batch", ">= 1"),
        ({"group_size": 0}, "group_size", ">= 1"),
        ({"sampling": {"stop": ["a"] * 17}}, "sampling.stop", "<= 16"),
        ({"sampling": {"stop": [""]}}, "sampling.stop[0]", ">= 1"),
        ({"sampling": {"stop": ["a", "b" * 65]}}, "sampling.stop[1]", "<= 64"),
        ({"sampling": {"stop_token_ids": [-1]}}, "sampling.stop_token_ids[0]", ">= 0"),
        ({"sampling": {"stop_token_ids": [1] * 65}}, "sampling.stop_token_ids", "<= 64"),
        ({"sampling": {"stopp": []}}, "sampling.stopp", "unknown"),
    ],
    ids=str,
)
def test_an_invalid_value_is_refused_with_the_path_of_its_lesson(
    lesson: dict[str, Any], field: str, limit: str
) -> None:
    error = refusal({"first": {}, "second": lesson})

    assert error.field == f"language.lessons.second.{field}"
    assert limit in error.message


@pytest.mark.parametrize(
    ("lesson", "run", "field"),
    [
        ({"short_groups": "shrink", "least_group_size": 9}, {}, "lessons.a.least_group_size"),
        ({"short_groups": "shrink"}, {"least_group_size": 9}, "least_group_size"),
        ({"group_size": 1}, {"short_groups": "shrink"}, "least_group_size"),
    ],
)
def test_a_shrunken_group_larger_than_the_group_is_refused(
    lesson: dict[str, Any], run: dict[str, Any], field: str
) -> None:
    error = refusal({"a": lesson, "b": {}}, group_size=8, **run)

    assert error.field == f"language.{field}"
    assert "exceeds the group size" in error.message


@pytest.mark.parametrize(
    ("lesson", "field"),
    [
        ({"short_groups": "retry"}, "short_groups"),
        ({"most_refills": 0}, "most_refills"),
        ({"most_refills": 17}, "most_refills"),
        ({"least_group_size": 0}, "least_group_size"),
    ],
)
def test_an_unknown_policy_is_refused_by_path(lesson: dict[str, Any], field: str) -> None:
    assert refusal({"a": lesson}).field == f"language.lessons.a.{field}"
    assert refusal({"a": {}}, **lesson).field == f"language.{field}"


def test_the_rule_of_a_lesson_overrides_that_of_the_run() -> None:
    language = parsed(
        {"plain": {}, "own": {"short_groups": "refill", "most_refills": 5}},
        short_groups="shrink",
        least_group_size=3,
    ).language
    assert language is not None

    assert language.short_group_rule("plain") == ("shrink", 3, 2)
    assert language.short_group_rule("own") == ("refill", 3, 5)
    assert language.shrinks


def test_a_lesson_without_sizes_uses_those_of_the_run() -> None:
    language = parsed(
        {"plain": {}, "own": {"group_size": 2, "prompts_per_batch": 3}},
        group_size=4,
        prompts_per_batch=5,
    ).language
    assert language is not None

    assert [language.group_size_of(name) for name in ("plain", "own")] == [4, 2]
    assert [language.prompts_of(name) for name in ("plain", "own")] == [5, 3]
    assert language.group_sizes == [2, 4]
    assert language.most_sequences == 20


def test_a_batch_size_that_groups_do_not_fill_is_refused_with_valid_sizes() -> None:
    error = refusal({"a": {}, "b": {"group_size": 6}}, group_size=8, batch_size=64)

    assert error.field == "buffer.batch_size"
    assert "64 sequences are not a multiple of the group size 6 of lesson 'b'" in error.message
    assert "Use 60 or 66" in error.message


def test_a_batch_smaller_than_a_group_is_refused() -> None:
    assert "Use 32," in refusal({"a": {"group_size": 32}}).message


def test_group_sizes_that_do_not_divide_each_other_are_refused() -> None:
    error = refusal({"a": {}, "b": {"group_size": 6}}, group_size=4, batch_size=24)

    assert error.field == "language.lessons.a.group_size"
    assert "4 must be a multiple or a divisor of 6" in error.message


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True), st.integers(1, 3))
def test_accepted_group_sizes_fill_any_batch_once_there_are_enough_sequences(
    powers: list[int], many: int
) -> None:
    lessons = {f"l{power}": {"group_size": 2**power} for power in powers}
    batch_size = many * 2 ** max(powers)
    language = parsed(lessons, batch_size=batch_size).language
    assert language is not None

    for chosen in combinations_with_replacement(language.group_sizes, min(8, batch_size)):
        if sum(chosen) < batch_size:
            continue
        sums = {0}
        for size in chosen:
            sums |= {one + size for one in sums}
        assert batch_size in sums
