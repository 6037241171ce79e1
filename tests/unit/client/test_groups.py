"""Both codecs keep the values of groups."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolldeck import wire
from rolldeck.group_encoding import pack_group, to_json, to_msgpack
from rolldeck.groups import ATROPOS_FIELDS, InvalidGroupError, read_json, read_msgpack
from tests.property_budget import examples

whole = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)
real = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | real | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def rows(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.lists(numbers, max_size=4), max_size=3)


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """Return a group that a run, lenient or strict, may have accepted."""
    tokens = draw(rows(st.integers(0, 2**31 - 1)) | rows(whole))
    shape = st.lists(st.booleans(), min_size=10, max_size=10)
    masks = draw(st.just([[t if t % 2 else -100 for t in row] for row in tokens]) | rows(whole))
    group = {"tokens": tokens, "masks": masks, "scores": draw(st.lists(real, max_size=3))}
    wide = draw(st.integers(0, 2))
    extras = {
        "advantages": st.just([[0.5] for _ in tokens]) | rows(real),
        "ref_logprobs": rows(real),
        "inference_logprobs": st.just([[-0.25 for _ in row] for row in tokens]) | rows(real),
        "distill_token_ids": st.just([[[1] * wide for _ in row] for row in tokens])
        | st.lists(rows(whole), max_size=2),
        "distill_logprobs": st.lists(rows(real), max_size=2),
        "messages": st.lists(st.lists(st.fixed_dictionaries({"role": st.text()})), max_size=2),
        "env_id": st.integers(0, 9),
        "policy_step": st.integers(0, 2**31 - 1),
        "epoch": st.integers(0, 9) | anything,
        "images": anything,
    }
    for (name, values), is_included in zip(extras.items(), draw(shape), strict=True):
        if is_included:
            group[name] = draw(values)
    return group | draw(st.dictionaries(st.text("xyz", max_size=3), anything))


def same(group: dict[str, Any], again: bytes) -> None:
    decoded = json.loads(again)
    expected = dict.fromkeys(ATROPOS_FIELDS) | {k: v for k, v in group.items() if v is not None}
    assert {k: v for k, v in decoded.items() if v is not None or k in ATROPOS_FIELDS} == expected
    assert list(decoded)[:3] == ["tokens", "masks", "scores"]


@settings(max_examples=examples(300))
@given(groups())
def test_a_json_group_survives_msgpack(group: dict[str, Any]) -> None:
    stored = to_msgpack(read_json(json.dumps(group).encode()))

    same(group, to_json(read_msgpack(stored)))
    shown = to_json(read_msgpack(stored))
    assert to_json(read_msgpack(to_msgpack(read_json(shown)))) == shown


@settings(max_examples=examples(150))
@given(groups())
def test_packed_groups_equal_their_json(group: dict[str, Any]) -> None:
    group = {name: value for name, value in group.items() if name != "epoch"}

    same(group, to_json(read_msgpack(wire.encode(pack_group(group)))))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_float_of_any_width_reads_back_the_same(dtype: str) -> None:
    sent = np.array([[-0.1, -1e-4, -12.7]], dtype=dtype)
    group = {"tokens": [[1, 2, 3]], "masks": [[1, 2, 3]], "scores": [1.0]}

    packed = wire.encode(pack_group(group | {"inference_logprobs": sent}))
    shown = json.loads(to_json(read_msgpack(packed)))["inference_logprobs"]
    back = read_json(to_json(read_msgpack(packed))).rows["inference_logprobs"].values

    np.testing.assert_array_equal(np.array(shown, dtype=dtype), sent)
    np.testing.assert_array_equal(back.astype(dtype), sent[0])
    assert read_msgpack(packed).rows["inference_logprobs"].values.dtype == dtype


def test_masks_are_encoded_as_flags_where_they_repeat_tokens() -> None:
    tokens = np.arange(6, dtype=np.int32).reshape(2, 3)
    masks = np.where(tokens > 2, tokens, -100)

    message = pack_group({"tokens": tokens, "masks": masks, "scores": [0.0, 1.0]})
    odd = pack_group({"tokens": tokens, "masks": masks + 1, "scores": [0.0, 1.0]})

    assert (message.masks.dtype, len(message.masks.data)) == ("bool", 6)
    assert odd.masks.dtype == "int32"
    assert (
        read_msgpack(wire.encode(message)).rows["masks"].values.tolist() == masks.ravel().tolist()
    )


def test_one_advantage_of_each_sequence_is_a_row_of_one() -> None:
    group = {"tokens": [[1, 2], [3, 4]], "masks": [[1, 2], [3, 4]], "scores": [0.0, 1.0]}

    message = pack_group(group | {"advantages": [0.5, -0.5]})

    assert message.advantages == wire.pack_array(np.array([0.5, -0.5]))
    assert message.own_lengths == {}
    shown = json.loads(to_json(read_msgpack(wire.encode(message))))
    assert shown["advantages"] == [[0.5], [-0.5]]


def test_free_fields_keep_their_bytes() -> None:
    messages = b'[ [{"role":"user",  "content":"\\u00e9", "reward":1.50}] ]'
    content = b'{"tokens":[[1]],"masks":[[1]],"scores":[0.5],"messages":%b}' % messages

    stored = to_msgpack(read_json(content))

    assert messages in stored
    assert messages in to_json(read_msgpack(stored))


def test_a_version_is_encoded_as_numbers() -> None:
    group = {"tokens": [[1]], "masks": [[1]], "scores": [0.5], "epoch": 2, "policy_step": 7}

    arrays = read_json(json.dumps(group).encode())

    assert (arrays.epoch, arrays.policy_step) == (2, 7)
    assert json.loads(to_json(read_msgpack(to_msgpack(arrays))))["policy_step"] == 7


def broken(**changed: Any) -> bytes:
    """Return a message of two sequences of 2 and 1 tokens, with some fields changed."""
    message = pack_group(
        {
            "tokens": [[1, 2], [3]],
            "masks": [[1, -100], [3]],
            "scores": [0.5, 1.0],
            "inference_logprobs": [[-1.0, -2.0], [-3.0]],
        }
    )
    fields = msgspec.to_builtins(message, builtin_types=(bytes,)) | changed
    return msgspec.msgpack.encode(fields)


def packed(values: Any, dtype: str) -> wire.Array:
    return wire.pack_array(np.array(values, dtype=dtype))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"schema": 2}, "schema"),
        ({"tokens": packed([1, 2], "int32")}, "tokens"),
        ({"tokens": packed([1, 2, 3], "float32")}, "tokens"),
        ({"tokens": packed([[1, 2, 3]], "int32")}, "tokens"),
        ({"tokens": {"dtype": "int32", "shape": [3], "data": b"123"}}, "tokens"),
        ({"tokens": {"dtype": "object", "shape": [3], "data": b"123"}}, "tokens"),
        ({"tokens": {"dtype": "int32", "shape": [-3], "data": b""}}, "tokens.shape[0]"),
        ({"tokens": {"dtype": "int32", "shape": [2**31 - 1] * 4, "data": b""}}, "tokens"),
        ({"tokens": {"dtype": "int32", "shape": [0] + [2**31 - 1] * 4, "data": b""}}, "tokens"),
        ({"lengths": packed([2, 1], "int64")}, "lengths"),
        ({"lengths": packed([4, -1], "int32")}, "lengths"),
        ({"masks": packed([True, True], "bool")}, "masks"),
        ({"masks": {"dtype": "bool", "shape": [3], "data": b"\x00\x01\x02"}}, "masks"),
        ({"scores": packed([0.5, np.nan], "float32")}, "scores"),
        ({"scores": packed([1, 2], "int32")}, "scores"),
        ({"inference_logprobs": packed([-1, -np.inf, -1], "float16")}, "inference_logprobs"),
        ({"distill_token_ids": packed([[1], [2]], "int32")}, "distill_token_ids"),
        ({"own_lengths": {"tokens": packed([3], "int32")}}, "own_lengths.tokens"),
        ({"own_lengths": {"advantages": packed([3], "int32")}}, "own_lengths.advantages"),
        ({"own_lengths": {"masks": packed([3], "int32")}}, "masks"),
        ({"json": {"tokens": b"[[1]]"}}, "json.tokens"),
        ({"json": {"policy_step": b"1"}}, "json.policy_step"),
        ({"json": {"messages": 1}}, "json[...]"),
        ({"env_id": -1}, "env_id"),
        ({"surplus": 1}, ""),
    ],
    ids=str,
)
def test_a_broken_message_is_refused_with_its_place(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidGroupError) as caught:
        read_msgpack(broken(**changed))

    assert caught.value.field == field


@settings(max_examples=examples(300))
@given(st.data())
def test_a_damaged_message_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    content = bytearray(broken())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del content[data.draw(st.integers(0, len(content))) :]

    try:
        arrays = read_msgpack(bytes(content))
    except InvalidGroupError:
        return
    assert arrays.rows["tokens"].lengths.sum() == len(arrays.rows["tokens"].values)


@pytest.mark.parametrize(
    ("group", "field"),
    [
        ({"tokens": [[1]], "scores": [1.0]}, "masks"),
        ({"tokens": [["x"]], "masks": [[1]], "scores": [1.0]}, "tokens"),
        ({"tokens": [[1]], "masks": [[1]], "scores": [1.0], "images": object()}, "images"),
    ],
)
def test_values_that_cannot_be_encoded_are_named(group: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidGroupError) as caught:
        pack_group(group)

    assert caught.value.field == field
