"""A batch of groups becomes padded arrays for a training step."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolldeck import wire
from rolldeck.batches import Batch
from rolldeck.group_encoding import pack_group
from rolldeck.wire import BatchAnswer, BatchHead, InvalidMessage, encode
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
    with pytest.raises(InvalidMessage, match="3 tokens does not fit into length 2"):
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
        ({"advantages": [[1.0, 2.0]]}, r"groups\[1\].advantages"),
        ({"scores": [1.0, 2.0]}, r"groups\[1\].scores"),
        ({"tokens": [[2**40, 1, 1]], "masks": [[1, 1, 1]]}, "does not fit into int32"),
    ],
)
def test_irregular_groups_of_a_lenient_run_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidMessage, match=message):
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

    with pytest.raises(InvalidMessage):
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

    with pytest.raises(InvalidMessage):
        Batch(head, []).padded()
