"""Groups are decoded alike from JSON and from MessagePack."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from buffer.ingest.schemas.bodies import InvalidBody, InvalidPush
from buffer.ingest.schemas.groups import Group, Rules
from buffer.ingest.schemas.groups_json import _validated_group, decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_push
from buffer.items.rules.limits import Limits
from buffer.items.rules.spans import MOST_SPANS, span_problem, valid_spans
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.groups import read_msgpack
from rolldeck.json_groups import read_plain
from tests.buffer_factories import group
from tests.property_budget import examples
from tests.valid_bodies import VALID_BODIES

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
    thorough = outcome(lambda: _validated_group(content, ("body",), Rules(lenient=lenient), 0))

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


whole = st.integers(-3, 9) | st.sampled_from([2**31 - 1, 2**31, -(2**40)])
real = st.floats(-9, 9)
masks = st.sampled_from([-100, 1, 2])
JSON_LIMITS = Limits(sequences_per_group=3, tokens_per_sequence=4, tokens_per_group=8)


@st.composite
def packed_groups(draw: st.DrawFn) -> dict[str, Any]:
    """Return a group that may break any rule of lengths and token ids."""
    lengths = draw(st.lists(st.integers(0, 5), max_size=4))

    def rows(values: st.SearchStrategy[Any]) -> Any:
        own = draw(st.just(lengths) | st.just(lengths) | st.lists(st.integers(0, 5), max_size=4))
        return [draw(st.lists(values, min_size=n, max_size=n)) for n in own]

    count = draw(st.just(len(lengths)) | st.integers(0, 4))
    group = {"tokens": rows(whole), "masks": rows(masks)}
    group["scores"] = draw(st.lists(real, min_size=count, max_size=count))
    for name in ("advantages", "ref_logprobs", "inference_logprobs"):
        if draw(st.booleans()):
            group[name] = rows(real)
    if draw(st.booleans()):
        group["messages"] = draw(
            st.lists(
                st.lists(
                    st.dictionaries(st.sampled_from(["role", "content"]), st.text()), max_size=2
                ),
                max_size=4,
            )
        )
    if draw(st.booleans()):
        group |= {"policy_step": draw(st.integers(0, 9)), "epoch": draw(st.integers(0, 2))}
    return group


def judged_as_json(group: dict[str, Any], **rules: Any) -> Group | list[str]:
    try:
        return decode_group(json.dumps(group).encode(), **rules)
    except InvalidBody as refusal:
        return [f"{problem.msg}" for problem in refusal.problems]


def judged_as_msgpack(group: dict[str, Any], **rules: Any) -> Group | str:
    content = wire.encode(wire.GroupPush(groups=[wire.encode(pack_group(group))]))
    try:
        return decode_push(content, **rules)[0]
    except InvalidPush as refusal:
        return refusal.message


@settings(max_examples=examples(400))
@given(packed_groups(), st.booleans())
def test_both_codecs_have_the_same_rules(group: dict[str, Any], lenient: bool) -> None:
    rules = {"limits": JSON_LIMITS, "lenient": lenient}

    as_json, as_msgpack = judged_as_json(group, **rules), judged_as_msgpack(group, **rules)

    if isinstance(as_json, list):
        assert as_msgpack in as_json
        return
    assert isinstance(as_msgpack, Group)
    for name in Group.__struct_fields__:
        if name not in {"content", "codec"}:
            assert getattr(as_msgpack, name) == getattr(as_json, name), name
    assert (as_json.codec, as_msgpack.codec) == ("json", "msgpack")


BINARY = [body.content for body in VALID_BODIES if body.name.startswith("binary")]


@settings(max_examples=examples(500))
@given(st.data())
def test_a_damaged_push_is_refused_with_a_position_or_accepted(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(BINARY)))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del content[data.draw(st.integers(0, len(content)) | st.just(len(content))) :]

    try:
        taken = decode_push(bytes(content))
    except InvalidPush as refusal:
        assert refusal.field  # noqa: PT017 either is right
        return
    for one in taken:
        assert one.content in bytes(content)
        assert one.sequences > 0


def test_added_advantages_replace_an_empty_field_in_both_codecs() -> None:
    group = {"tokens": [[1, 2], [3]], "masks": [[1, 2], [3]], "scores": [1.0, 0.0]}
    group |= {"advantages": [], "ref_logprobs": [], "inference_logprobs": [[], []]}

    as_json = judged_as_json(group, advantages="rloo")
    as_msgpack = judged_as_msgpack(group, advantages="rloo")

    assert isinstance(as_json, Group)
    assert isinstance(as_msgpack, Group)
    assert as_json.notes == as_msgpack.notes == []
    assert json.loads(as_json.content)["advantages"] == [[1.0, 1.0], [-1.0]]
    assert read_msgpack(as_msgpack.content).rows["advantages"].values.tolist() == [1.0, -1.0]


@settings(max_examples=examples(200))
@given(st.binary(max_size=200))
@example(b"\x82\xa6schema\x01\xa6groups\xdd\xff\xff\xff\xff")
@example(b"\x81" * 5000)
@example(b"\xdf\xff\xff\xff\xff")
def test_random_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidPush):
        decode_push(content)


def test_values_above_a_limit_are_refused_with_its_name() -> None:
    group = {"tokens": [[1, 2]] * 3, "masks": [[1, 2]] * 3, "scores": [0.0] * 3}
    content = wire.encode(wire.GroupPush(groups=[wire.encode(pack_group(group))] * 2))
    cases = {
        "groups_per_push": 1,
        "sequences_per_group": 2,
        "tokens_per_sequence": 1,
        "tokens_per_group": 5,
        "values_per_group": 11,
    }

    for name, most in cases.items():
        with pytest.raises(InvalidPush, match=f"max_{name}"):
            decode_push(content, limits=Limits(**{name: most}))
        assert len(decode_push(content, limits=Limits(**{name: most + 1}), lenient=True)) == 2


GOOD = {"name": "generate", "start": 1.8e9, "end": 1.8e9 + 2}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("soon", ()),
        ([[GOOD]], ()),
        ([[GOOD], GOOD], (1,)),
        ([[], [GOOD] * (MOST_SPANS + 1)], (1,)),
        ([[GOOD], [{"name": "x"}]], (1, 0)),
        ([[GOOD], [GOOD | {"colour": "red"}]], (1, 0)),
        ([[GOOD], [GOOD | {"name": ""}]], (1, 0, "name")),
        ([[GOOD], [GOOD | {"name": "x" * 61}]], (1, 0, "name")),
        ([[GOOD], [GOOD | {"start": "now"}]], (1, 0, "start")),
        ([[GOOD], [GOOD | {"start": True}]], (1, 0, "start")),
        ([[GOOD], [GOOD | {"end": -1}]], (1, 0, "end")),
        ([[GOOD], [GOOD | {"end": 1e12}]], (1, 0, "end")),
        ([[GOOD], [GOOD | {"end": 3}]], (1, 0, "end")),
    ],
)
def test_invalid_spans_are_named(value: Any, path: tuple[Any, ...]) -> None:
    problem = span_problem(value, sequences=2)

    assert problem is not None
    assert problem.path == path
    assert span_problem([[GOOD], []], sequences=2) is None


def test_spans_are_returned_in_order_without_invalid_ones() -> None:
    later = GOOD | {"start": 1.8e9 + 1}
    spans = valid_spans(json.dumps([[later, GOOD, {"name": "odd"}], "odd", []]).encode())

    assert [[span.start for span in row] for row in spans.values()] == [[1.8e9, 1.8e9 + 1]]
    assert valid_spans(b"{") == valid_spans(None) == valid_spans(b"3") == {}


def _pushed(**fields: Any) -> bytes:
    packed = wire.encode(pack_group(group(sequences=2) | fields))
    return wire.encode(wire.GroupPush(groups=[packed]))


def test_the_wire_format_refuses_invalid_spans_and_atropos_accepts_them() -> None:
    wrong = [[GOOD], [GOOD | {"end": 0}]]

    with pytest.raises(InvalidPush) as refused:
        decode_push(_pushed(spans=wrong))
    assert refused.value.field == "groups[0].json.spans[1][0].end"
    assert decode_push(_pushed(spans=[[GOOD], []]))[0].sequences == 2
    assert decode_group(json.dumps(group(sequences=2) | {"spans": wrong}).encode()).sequences == 2
