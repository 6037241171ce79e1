"""The fast reader of JSON groups must never disagree with the thorough one."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.schemas.groups import Rules
from buffer.ingest.schemas.groups_json import _validated_group, decode_group
from buffer.items.rules.limits import DEFAULTS
from rolldeck.json_groups import read_plain
from tests.property_budget import examples

PLAIN: dict[str, Any] = {
    "tokens": [[1, 2, 3], [4, 5]],
    "masks": [[-100, 2, 3], [-100, 5]],
    "scores": [0.5, -1.0],
}

numbers = st.one_of(
    st.integers(-200, 200),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.sampled_from([2**31, 2**31 - 1, 2**63, 2**64, -0.0, 1e308, 1.0]),
)
odd = st.sampled_from([None, True, "7", "x", "[", [], [1], [[]], {}, {"a": [1]}])
cells = st.one_of(st.integers(0, 9), st.integers(0, 9), numbers, odd)
rows = st.lists(st.one_of(st.lists(cells, max_size=4), odd), max_size=3)
good_rows = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=3)
good_floats = st.lists(st.lists(st.floats(-9, 0), max_size=4), max_size=3)
messages = st.lists(
    st.lists(
        st.fixed_dictionaries(
            {"role": st.text(max_size=3), "content": st.text(max_size=9)},
            optional={"reward": numbers, "[": rows},
        ),
        max_size=2,
    ),
    max_size=3,
)
groups = st.fixed_dictionaries(
    {
        "tokens": good_rows | rows,
        "masks": good_rows | rows,
        "scores": st.lists(st.floats(-9, 9), max_size=3) | st.lists(cells, max_size=3),
    },
    optional={
        "advantages": good_floats | rows | st.none(),
        "inference_logprobs": good_floats | rows | st.none(),
        "messages": messages | rows | st.none(),
        "env_id": st.integers(0, 3) | odd,
        "overrides": rows,
        "distill_token_ids": st.lists(rows, max_size=2),
        "images": odd,
        "a key of ours [": odd | rows | numbers,
    },
)


def outcome(read: Any) -> Any:
    try:
        return read()
    except InvalidBody as error:
        return error.problems


@settings(max_examples=examples(400))
@given(groups, st.booleans(), st.booleans())
def test_both_readers_agree(group: dict[str, Any], lenient: bool, ascii: bool) -> None:  # noqa: A002
    content = json.dumps(group, ensure_ascii=ascii).encode("utf-8", "surrogatepass")

    fast = outcome(lambda: decode_group(content, lenient=lenient))
    thorough = outcome(
        lambda: _validated_group(content, ("body",), Rules(limits=DEFAULTS, lenient=lenient))
    )

    assert fast == thorough


def test_a_plain_group_is_read_fast() -> None:
    group = PLAIN | {
        "inference_logprobs": [[-0.5, -1, -2.25], [-3.0, 0]],
        "messages": [[{"role": "user", "content": "a [list] \n"}]],
        "env_id": 3,
        "images": None,
    }

    plain = read_plain(json.dumps(group).encode())

    assert plain is not None
    assert plain.env_id == 3
    assert plain.rows["tokens"].values.tolist() == [1, 2, 3, 4, 5]
    assert plain.rows["tokens"].lengths.tolist() == [3, 2]
    assert plain.rows["inference_logprobs"].values.tolist() == [-0.5, -1, -2.25, -3.0, 0]
    assert plain.rows["inference_logprobs"].values.dtype == np.float64
    assert plain.scores.tolist() == [0.5, -1.0]
    assert json.loads(plain.others["messages"]) == group["messages"]
    assert plain.present == set(group)


@pytest.mark.parametrize(
    "changed",
    [
        {"tokens": [[[1, 2], []], [4, 5]], "masks": [[1, 2], [4, 5]]},
        {"tokens": [[[1, 2], [], 3], [4, 5]]},
        {
            "tokens": [[[1, 2], []], [4, 5]],
            "masks": [[1, 2], [4, 5]],
            "messages": [[{"role": "\\u005b\\u005b", "content": ""}]],
        },
        {"tokens": ["abc", [4, 5]]},
        {"scores": [1, 0.5]},
        {"env_id": "3"},
        {"env_id": True},
        {"distill_token_ids": [[[1]]]},
        {"masks": None},
        {str(key): 1 for key in range(65)},
    ],
    ids=str,
)
def test_complex_groups_are_left_to_the_full_reader(changed: dict[str, Any]) -> None:
    content = json.dumps(PLAIN | changed).replace("\\\\u", "\\u").encode()

    assert read_plain(content) is None


def test_the_last_of_two_equal_keys_counts_as_everywhere_in_python() -> None:
    content = (
        json.dumps(PLAIN).encode()[:-1] + b', "tokens": [[7]], "masks": [[7]], "scores": [2.5]}'
    )

    group = decode_group(content)

    assert read_plain(content) is None
    assert (group.sequences, group.score_mean) == (1, 2.5)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xef\xbb\xbf" + json.dumps(PLAIN).encode(),
        json.dumps(PLAIN).encode() + b"{}",
        json.dumps(PLAIN).encode()[:-1],
        b'{"tokens": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"tokens": [[NaN]], "masks": [[1]], "scores": [0.5]}',
    ],
)
def test_invalid_json_is_refused_by_both_readers(content: bytes) -> None:
    assert read_plain(content) is None
    with pytest.raises(InvalidBody):
        decode_group(content)


def test_the_bytes_are_kept_and_absent_fields_are_null() -> None:
    content = json.dumps(PLAIN | {"env_id": None, "mine": [1.50, "é"]}, ensure_ascii=False).encode()

    group = decode_group(b" \n" + content + b"\n")

    assert group.content.startswith(content[:-1])
    assert json.loads(group.content) == PLAIN | {
        "env_id": None,
        "mine": [1.5, "é"],
        **dict.fromkeys(
            (
                "advantages",
                "ref_logprobs",
                "messages",
                "generation_params",
                "inference_logprobs",
                "overrides",
                "group_overrides",
                "images",
                "distill_token_ids",
                "distill_logprobs",
            )
        ),
    }


@pytest.mark.parametrize("field", ["tokens", "masks", "scores"])
@pytest.mark.parametrize("value", ['"words"', '{"a": [1]}', "7", "true"])
def test_values_that_are_not_lists_of_rows_are_refused(field: str, value: str) -> None:
    parts = {"tokens": "[[1]]", "masks": "[[1]]", "scores": "[0.5]"} | {field: value}
    text = ",".join(f'"{name}":{part}' for name, part in parts.items())

    with pytest.raises(InvalidBody, match=field):
        decode_group(f"{{{text}}}".encode())
