"""A batch of groups becomes padded arrays for a training step."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolldeck import wire
from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError
from rolldeck.group_encoding import pack_group
from rolldeck.wire import (
    BatchAnswer,
    BatchHead,
    encode,
)
from tests.property_budget import examples

HEAD = BatchHead(
    id="b", ordinal=1, fence=1, kind="groups", count=1, lease_seconds=9, epoch=1, policy_step=-2
)


def batch(*groups: dict[str, Any], codecs: str = "") -> Batch:
    """Return a received batch; `codecs` is j or m for each group, j by default."""
    packed = [
        wire.encode(pack_group(group)) if codec == "m" else json.dumps(group).encode()
        for group, codec in zip(groups, codecs or "j" * len(groups), strict=True)
    ]
    names = [{"j": "json", "m": "msgpack"}[codec] for codec in codecs or "j" * len(groups)]
    return Batch.decode(encode(BatchAnswer(batch=HEAD, codecs=names, items=packed)))  # type: ignore[arg-type]


def group(*rows: list[int], **fields: Any) -> dict[str, Any]:
    masks = [[token if token % 2 else -100 for token in row] for row in rows]
    scores = [float(len(row)) for row in rows]
    return {"tokens": list(rows), "masks": masks, "scores": scores, **fields}


@pytest.mark.parametrize("empty", [[], [[]], [[], []]])
def test_an_optional_field_without_numbers_is_an_absent_field(empty: list[Any]) -> None:
    names = ("advantages", "ref_logprobs", "inference_logprobs")
    bare = group([1, 2, 3], [4], **dict.fromkeys(names, empty), messages=[], overrides=[])
    full = group([5], **{name: [[0.5]] for name in names})

    for codecs in ("jj", "mm"):
        assert not batch(bare, bare, codecs=codecs).padded().keys() & set(names)
        mixed = batch(bare, full, codecs=codecs).padded()
        for name in names:
            assert mixed[f"has_{name}"].tolist() == [False, False, True]


def test_rows_of_several_groups_are_concatenated() -> None:
    arrays = batch(group([1, 2, 3], [4]), group([5, 6], env_id=7)).padded(pad_token_id=9)

    assert arrays["tokens"].tolist() == [[1, 2, 3], [4, 9, 9], [5, 6, 9]]
    assert arrays["masks"].tolist() == [[1, -100, 3], [-100, -100, -100], [5, -100, -100]]
    assert arrays["attention_mask"].tolist() == [
        [True, True, True],
        [True, False, False],
        [True, True, False],
    ]
    assert arrays["scores"].tolist() == [3.0, 1.0, 2.0]
    assert arrays["lengths"].tolist() == [3, 1, 2]
    assert arrays["group_index"].tolist() == [0, 0, 1]
    assert arrays["env_ids"].tolist() == [-1, -1, 7]
    assert {name: str(array.dtype) for name, array in arrays.items()} == {
        "tokens": "int32",
        "masks": "int32",
        "attention_mask": "bool",
        "scores": "float32",
        "lengths": "int32",
        "group_index": "int32",
        "env_ids": "int32",
        "zero_advantage": "bool",
        "temperature": "float32",
    }


@pytest.mark.parametrize(
    ("options", "width"),
    [({}, 3), ({"multiple_of": 2}, 4), ({"multiple_of": 3}, 3), ({"length": 5}, 5)],
)
def test_the_width_is_the_longest_row_or_the_requested_one(
    options: dict[str, int], width: int
) -> None:
    arrays = batch(group([1, 2, 3], [4])).padded(**options)

    assert arrays["tokens"].shape == arrays["attention_mask"].shape == (2, width)


def test_rows_are_not_truncated_silently() -> None:
    with pytest.raises(InvalidMessageError, match="3 tokens does not fit into length 2"):
        batch(group([1, 2, 3])).padded(length=2)


def test_fields_of_only_some_groups_are_marked() -> None:
    some = group([1, 2], inference_logprobs=[[-0.5, -1.5]])
    arrays = batch(some, group([3, 4, 5])).padded()

    assert arrays["inference_logprobs"].tolist() == [[-0.5, -1.5, 1.0], [1.0, 1.0, 1.0]]
    assert arrays["has_inference_logprobs"].tolist() == [True, False]
    assert "ref_logprobs" not in arrays
    padded = batch(some, group([3, 4, 5])).padded(pad_logprob=0.0)
    assert padded["inference_logprobs"].tolist() == [[-0.5, -1.5, 0.0], [0.0, 0.0, 0.0]]


def test_advantages_are_by_sequence_only_when_all_are() -> None:
    by_sequence = group([1, 2], [3], advantages=[[0.5], [-0.5]])
    by_token = group([4, 5], advantages=[[1.0, 2.0]])

    flat = batch(by_sequence, group([9])).padded()
    wide = batch(by_sequence, group([9]), by_token).padded()

    assert flat["advantages"].tolist() == [0.5, -0.5, 0.0]
    assert flat["has_advantages"].tolist() == [True, True, False]
    assert wide["advantages"].tolist() == [[0.5, 0.5], [-0.5, 0.0], [0.0, 0.0], [1.0, 2.0]]


ZERO = {"set_advantage_to_zero": True}
HOT = {"temperature": 1.5}


@pytest.mark.parametrize("codec", "jm")
@pytest.mark.parametrize(
    ("fields", "zero", "temperature"),
    [
        ({}, [0, 0], [0.7, 0.7]),
        ({"overrides": [{}, ZERO]}, [0, 1], [0.7, 0.7]),
        ({"overrides": [{"set_advantage_to_zero": False}, {"sft": True}]}, [0, 0], [0.7, 0.7]),
        ({"overrides": [HOT, {}]}, [0, 0], [1.5, 0.7]),
        ({"overrides": [HOT, {}], "generation_params": {"temperature": 2}}, [0, 0], [1.5, 2.0]),
        (
            {"generation_params": {"temperature": 2}, "group_overrides": {"temperature": 3}},
            [0, 0],
            [2.0, 2.0],
        ),
        (
            {"generation_params": {"top_p": 1}, "group_overrides": {"temperature": 3}},
            [0, 0],
            [3.0, 3.0],
        ),
        ({"generation_params": {"temperature": 0.0}}, [0, 0], [1.0, 1.0]),
        ({"overrides": [{"temperature": -1}, {}]}, [0, 0], [1.0, 0.7]),
        ({"generation_params": {"temperature": "0.5"}}, [0, 0], [0.5, 0.5]),
        ({"generation_params": {"temperature": None}}, [0, 0], [0.7, 0.7]),
        ({"generation_params": {"temperature": "hot"}}, [0, 0], [0.7, 0.7]),
        ({"generation_params": {"temperature": [1]}}, [0, 0], [0.7, 0.7]),
        ({"overrides": [ZERO | HOT]}, [0, 0], [0.7, 0.7]),
        ({"overrides": [ZERO, {}, HOT]}, [0, 0], [0.7, 0.7]),
        ({"overrides": [], "generation_params": {}}, [0, 0], [0.7, 0.7]),
    ],
)
def test_settings_of_single_sequences_are_those_that_the_group_states(
    codec: str, fields: dict[str, Any], zero: list[int], temperature: list[float]
) -> None:
    groups = group([1, 2, 3], [4, 5], **fields), group([6])

    arrays = batch(*groups, codecs=2 * codec).padded(temperature=0.7)

    assert arrays["zero_advantage"].tolist() == [*map(bool, zero), False]
    assert arrays["temperature"] == pytest.approx([*temperature, 0.7])
    default = batch(*groups, codecs=2 * codec).padded()
    assert default["temperature"][2] == 1.0


@pytest.mark.parametrize("codec", "jm")
def test_advantages_are_zero_where_the_environment_sets_them_to_zero(codec: str) -> None:
    settings = {"overrides": [ZERO, {}]}
    by_sequence = group([1, 2], [3], advantages=[[0.5], [-0.5]], **settings)
    by_token = group([4, 5], [6], advantages=[[1.0, 2.0], [3.0]], **settings)

    assert batch(by_sequence, codecs=codec).padded()["advantages"].tolist() == [0.0, -0.5]
    wide = batch(by_token, codecs=codec).padded()["advantages"]
    assert wide.tolist() == [[0.0, 0.0], [3.0, 0.0]]


@pytest.mark.parametrize("codec", "jm")
@pytest.mark.parametrize("odd", [[[1.0, 2.0, 3.0]], [[0.5]], [[0.5, 0.5], [0.5]], [[1], [2], [3]]])
def test_advantages_of_another_length_count_as_absent(codec: str, odd: list[list[float]]) -> None:
    """Atropos accepts them, so the platform does too."""
    fine = group([6], advantages=[[0.5]])

    arrays = batch(group([1, 2, 3], [4]) | {"advantages": odd}, fine, codecs=2 * codec).padded()

    assert arrays["has_advantages"].tolist() == [False, False, True]
    assert arrays["advantages"].tolist() == [0.0, 0.0, 0.5]


@pytest.mark.parametrize("codec", "jm")
@pytest.mark.parametrize(
    ("ids", "logprobs"),
    [
        ([[[1, 2], [3, 4]], [[5, 6]]], [[[-1, -2], [-3, -4]], [[-5, -6]]]),
        ([[[1, 2], [3]], [[5]]], [[[-1, -2], [-3]], [[-5]]]),
        ([[[1, 2], []], [[5]]], [[[-1, -2], []], [[-5]]]),
    ],
)
def test_tokens_of_a_teacher_are_padded_in_both_dimensions(
    codec: str, ids: list[Any], logprobs: list[Any]
) -> None:
    taught = group([7, 8], [9], distill_token_ids=ids, distill_logprobs=logprobs)
    other = group([1], distill_token_ids=[[[4]]], distill_logprobs=[[[-0.5]]])

    arrays = batch(taught, group([2, 3, 4]), other, codecs=3 * codec).padded()

    def spread(rows: list[Any], fill: float) -> list[Any]:
        cells = [[(row + [fill] * 2)[:2] for row in cells] for cells in rows]
        return [(row + [[fill] * 2] * 3)[:3] for row in cells]

    assert arrays["distill_token_ids"].tolist() == spread([*ids, [], [[4]]], -100)
    assert arrays["distill_logprobs"].tolist() == spread([*logprobs, [], [[-0.5]]], 1.0)
    for name in ("distill_token_ids", "distill_logprobs"):
        assert arrays[f"has_{name}"].tolist() == [True, True, False, True]
    assert str(arrays["distill_token_ids"].dtype) == "int32"
    assert str(arrays["distill_logprobs"].dtype) == "float32"


@pytest.mark.parametrize("codec", "jm")
@pytest.mark.parametrize("value", [None, [], [[], []], [[[]] * 2, [[]]], [[[1]]], [[[1]], [[1]]]])
def test_a_teacher_without_values_for_every_token_counts_as_absent(codec: str, value: Any) -> None:
    arrays = batch(group([7, 8], [9], distill_token_ids=value), codecs=codec).padded()

    assert not any("distill" in name for name in arrays)


def test_arrays_are_writable_and_contiguous() -> None:
    full = group([1, 2], [3, 4], advantages=[[0.5, 1.0]] * 2, ref_logprobs=[[-1.0, -2.0]] * 2)

    arrays = batch(full, codecs="m").padded()

    for name, array in arrays.items():
        assert array.flags.writeable, name
        assert array.flags.c_contiguous, name
        assert array.flags.owndata or array.base.flags.owndata, name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"masks": [[1, 2]]}, r"groups\[1\].masks"),
        ({"inference_logprobs": [[-1.0]]}, r"groups\[1\].inference_logprobs"),
        ({"scores": [1.0, 2.0]}, r"groups\[1\].scores"),
        ({"tokens": [[2**40, 1, 1]], "masks": [[1, 1, 1]]}, "does not fit into int32"),
    ],
)
def test_irregular_groups_of_a_lenient_run_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidMessageError, match=message):
        batch(group([1]), group([1, 3, 5]) | fields).padded()


rows = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), min_size=1, max_size=3)


@settings(max_examples=examples(150))
@given(st.lists(rows, min_size=1, max_size=3), st.data())
def test_every_token_is_in_its_place_in_either_codec(
    groups: list[list[list[int]]], data: st.DataObject
) -> None:
    made = [
        group(*one, inference_logprobs=[[-float(token % 97) for token in row] for row in one])
        for one in groups
    ]
    codecs = data.draw(st.text("jm", min_size=len(made), max_size=len(made)))

    arrays = batch(*made, codecs=codecs).padded()

    flat = [row for group in groups for row in group]
    masks = [row for mask in made for row in mask["masks"]]
    width = max(map(len, flat))
    assert arrays["tokens"].tolist() == [row + [0] * (width - len(row)) for row in flat]
    assert arrays["masks"].tolist() == [row + [-100] * (width - len(row)) for row in masks]
    assert arrays["inference_logprobs"].tolist() == [
        [-float(token % 97) for token in row] + [1.0] * (width - len(row)) for row in flat
    ]


def test_groups_of_both_codecs_are_shown_as_atropos_shows_them() -> None:
    both = batch(group([1, 2], messages=[]), group([3]), codecs="mj")

    assert both.groups[0]["tokens"] == [[1, 2]]
    assert both.groups[0]["messages"] == []
    assert both.groups[0]["advantages"] is None
    assert both.groups[1]["tokens"] == [[3]]


def test_a_batch_needs_one_codec_for_each_item() -> None:
    answer = BatchAnswer(batch=HEAD, codecs=["json"], items=[b"{}", b"{}"])

    with pytest.raises(InvalidMessageError):
        Batch.decode(encode(answer))


def test_a_batch_of_fragments_is_not_padded() -> None:
    head = BatchHead(
        id="b",
        ordinal=1,
        fence=1,
        kind="fragments",
        count=0,
        lease_seconds=9,
        epoch=1,
        policy_step=0,
    )

    with pytest.raises(InvalidMessageError):
        Batch(head, []).padded()
