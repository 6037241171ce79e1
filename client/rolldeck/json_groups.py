"""Read Atropos' JSON groups into arrays without making a Python object of any number.

For one group of 8 × 2,048 tokens, masks and float logprobs (0.58 MB) simdjson takes 0.8 ms of CPU
to parse it and copy its numbers into buffers. Lists by typed msgspec (1.4) or orjson (1.3) become
arrays after 0.8 more, by `numpy.fromiter`. It reads the plain form only: whatever has a leniency
or an error in it is left to a thorough reader, whose word counts.

pysimdjson's ``as_list`` and ``as_dict`` are never used: they trust lengths that stop counting at
2²⁴, and would write past the end of a longer list.
"""

import threading
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import simdjson
from numpy.typing import NDArray

from rolldeck.ragged import Rows

INTEGER_ROWS: Final = frozenset({"tokens", "masks"})
FLOAT_ROWS: Final = frozenset({"advantages", "ref_logprobs", "inference_logprobs"})
DISTILLATION: Final = frozenset({"distill_token_ids", "distill_logprobs"})
Bytes = bytes | memoryview
MAX_KEYS: Final = 64
MAX_SEQUENCES: Final = 1024
# A parser keeps room for the largest body it has seen; after a larger one it is thrown away.
KEPT_PARSER_BYTES: Final = 8 << 20
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    OverflowError,
)


class PlainGroup(NamedTuple):
    """What a plain group holds.

    Attributes:
        rows: By field; int64 where the field holds integers, else float64. A field that is
            absent or null is not in it.
        scores: ``[S]`` float64.
        env_id: As sent.
        others: Every further field that is not null, as JSON in the shortest form.
        present: Names of all fields, null or not.
    """

    rows: dict[str, Rows]
    scores: NDArray[np.float64]
    env_id: int | None
    others: dict[str, bytes]
    present: set[str]


class _Parsers(threading.local):
    """One parser for each thread: making one costs as much as reading a group."""

    kept: simdjson.Parser | None = None

    def take(self, size_bytes: int) -> simdjson.Parser:
        if size_bytes > KEPT_PARSER_BYTES:
            return simdjson.Parser()
        if self.kept is None:
            self.kept = simdjson.Parser()
        return self.kept


_parsers: Final = _Parsers()


class _NotPlain(ValueError):
    """The group needs the thorough reader."""


def read_plain(content: Bytes) -> PlainGroup | None:
    """Return the arrays of one group, or None when it is not in the plain form.

    Plain is an object without repeated keys, with integers where integers belong, numbers with a
    fraction or exponent in `scores`, rows that hold nothing but numbers, and no distillation.
    Lengths are as they are: two fields may disagree.
    """
    if content[:1] != b"{":
        return None
    try:
        return _read(_parsers.take(len(content)).parse(content), content)
    except _UNREADABLE:
        return None


def _read(document: Any, content: Bytes) -> PlainGroup:
    keys = list(document)
    if len(keys) > MAX_KEYS or len(set(keys)) < len(keys):
        raise _NotPlain
    rows: dict[str, Rows] = {}
    others: dict[str, bytes] = {}
    for key in keys:
        value = document[key]
        if value is None or key in {"scores", "env_id"}:
            continue
        if key in INTEGER_ROWS:
            rows[key] = _rows(value, "i", np.int64)
        elif key in FLOAT_ROWS:
            rows[key] = _rows(value, "d", np.float64)
        else:
            others[key] = _json(key, value)
    if not rows.keys() >= INTEGER_ROWS:
        raise _NotPlain
    _check_nesting(content, rows, others)
    scores = _scores(document["scores"])
    return PlainGroup(rows, scores, _env_id(document.get("env_id")), others, set(keys))


def _rows(field: Any, kind: Any, dtype: Any) -> Rows:
    if not isinstance(field, simdjson.Array):
        raise _NotPlain
    rows: Any = field
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    values = np.frombuffer(rows.as_buffer(of_type=kind), dtype=dtype)
    # A row that is text has a length too, but no number in the buffer.
    if int(lengths.sum()) != len(values):
        raise _NotPlain
    return Rows(values, lengths)


def _scores(value: Any) -> NDArray[np.float64]:
    if not isinstance(value, simdjson.Array) or len(value) > MAX_SEQUENCES:
        raise _NotPlain
    scores = list(value)
    if not all(type(score) is float for score in scores):
        raise _NotPlain
    return np.array(scores, dtype=np.float64)


def _env_id(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise _NotPlain
    return value


def _json(key: str, value: Any) -> bytes:
    # A distillation's lengths cannot be had without a Python object for each token.
    if key in DISTILLATION:
        raise _NotPlain
    if isinstance(value, simdjson.Object | simdjson.Array):
        return cast(bytes, value.mini)
    return msgspec.json.encode(value)


def _check_nesting(content: Bytes, rows: dict[str, Rows], others: dict[str, bytes]) -> None:
    """Accept rows that hold no lists: the buffers flatten them, and lengths may still agree.

    Every list opens with a bracket, so the brackets of the group are counted.
    """
    brackets = 1 + sum(1 + len(field.lengths) for field in rows.values())
    for text in others.values():
        brackets += text.count(b"[")
    escaped = bool(others) and b"\\u005" in bytes(content)
    # numpy counts a byte five times as fast as bytes.count does.
    found = np.count_nonzero(np.frombuffer(content, dtype=np.uint8) == ord("["))
    if escaped or found != brackets:
        raise _NotPlain
