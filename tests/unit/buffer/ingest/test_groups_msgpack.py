"""A group is judged the same in either codec, and no damage gets past the check."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from buffer.ingest.schemas.bodies import InvalidBody, InvalidPush
from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_push
from buffer.items.rules.limits import Limits
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.groups import read_msgpack
from tests.property_budget import examples
from tests.valid_bodies import VALID_BODIES

whole = st.integers(-3, 9) | st.sampled_from([2**31 - 1, 2**31, -(2**40)])
real = st.floats(-9, 9)
masks = st.sampled_from([-100, 1, 2])
JSON_LIMITS = Limits(sequences_per_group=3, tokens_per_sequence=4, tokens_per_group=8)


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
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
@given(groups(), st.booleans())
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
    for group in taken:
        assert group.content in bytes(content)
        assert group.sequences > 0


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
