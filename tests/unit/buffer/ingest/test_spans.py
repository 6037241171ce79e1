"""Timing spans of sequences: accepted, refused and ignored values."""

import json
from typing import Any

import pytest

from buffer.ingest.schemas.bodies import InvalidPush
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_push
from buffer.items.rules.spans import MOST_SPANS, span_problem, valid_spans
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from tests.buffer_factories import group

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
