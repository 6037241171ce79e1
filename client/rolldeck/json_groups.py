"""Read Atropos' JSON groups into arrays without creating a Python object per number.

For one group of 8 × 2,048 tokens, masks and float logprobs (0.58 MB), simdjson takes 0.8 ms of CPU
time for parsing and copying the numbers into buffers. Typed msgspec takes 1.4 ms and orjson 1.3 ms
to create lists, and `numpy.fromiter` another 0.8 ms to convert them. This reader handles the plain
form only; input with deviations or errors is left to the thorough reader, and all input where
pysimdjson is not installed. The server requires it; a client reads groups in JSON only if stock
environments pushed them.

pysimdjson's ``as_list`` and ``as_dict`` must not be used: they rely on lengths that stop counting
at 2²⁴, and would write past the end of a longer list.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck.ragged import Rows

try:
    import simdjson
except ModuleNotFoundError:
    HAS_SIMDJSON = False
else:
    HAS_SIMDJSON = True

INTEGER_ROWS: Final = frozenset({"tokens", "masks"})
FLOAT_ROWS: Final = frozenset({"advantages", "ref_logprobs", "inference_logprobs"})
DISTILLATION: Final = frozenset({"distill_token_ids", "distill_logprobs"})
Bytes = bytes | memoryview
MAX_KEYS: Final = 64
MAX_SEQUENCES: Final = 1024
# A parser keeps buffers of two to three times the largest body it has parsed.
KEPT_PARSER_BYTES: Final = 4 << 20
"""Largest body for the parser of a thread."""
SHARED_PARSER_BYTES: Final = 32 << 20
"""Largest body for the parser that the threads of a process share; larger ones get their own."""
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    OverflowError,
)


class PlainGroup(NamedTuple):
    """The content of a group in plain form.

    Attributes:
        rows: By field; int64 for integer fields, otherwise float64. Absent and null fields are
            left out.
        scores: ``[S]`` float64.
        env_id: As sent.
        others: All other fields that are not null, as compact JSON.
        present: Names of all fields, including null ones.
    """

    rows: dict[str, Rows]
    scores: NDArray[np.float64]
    env_id: int | None
    others: dict[str, bytes]
    present: set[str]


class _Parsers(threading.local):
    """One parser per thread: creating one costs as much as reading a group."""

    kept: "simdjson.Parser | None" = None


_parsers: Final = _Parsers()
_shared_lock: Final = threading.Lock()
_shared: Final = simdjson.Parser() if HAS_SIMDJSON else None


@contextmanager
def _parser_for(size_bytes: int) -> Iterator["simdjson.Parser"]:
    """Yield a parser for a body.

    A new parser touches fresh memory of two to three times the body, which can take longer than
    parsing. Its documents must not be used after the block.
    """
    if size_bytes <= KEPT_PARSER_BYTES:
        if _parsers.kept is None:
            _parsers.kept = simdjson.Parser()
        yield _parsers.kept
    elif (
        _shared is not None
        and size_bytes <= SHARED_PARSER_BYTES
        and _shared_lock.acquire(blocking=False)
    ):
        try:
            yield _shared
        finally:
            _shared_lock.release()
    else:
        yield simdjson.Parser()


class _NotPlainError(ValueError):
    """The group needs the thorough reader."""


def read_plain(content: Bytes) -> PlainGroup | None:
    """Return the arrays of one group, or None if it is left to the thorough reader.

    The plain form is an object without repeated keys, with integers in integer fields, numbers with
    a fraction or exponent in `scores`, rows of numbers only, and no distillation. Lengths are not
    checked: two fields may disagree.
    """
    if not HAS_SIMDJSON or content[:1] != b"{":
        return None
    try:
        with _parser_for(len(content)) as parser:
            return _read(parser.parse(content), content)
    except _UNREADABLE:
        return None


def _read(document: Any, content: Bytes) -> PlainGroup:
    keys = list(document)
    if len(keys) > MAX_KEYS or len(set(keys)) < len(keys):
        raise _NotPlainError
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
        elif key in DISTILLATION:
            # The lengths of a distillation field would need a Python object for each token.
            raise _NotPlainError
        elif isinstance(value, simdjson.Object | simdjson.Array):
            others[key] = cast(bytes, value.mini)
        else:
            others[key] = msgspec.json.encode(value)
    if not rows.keys() >= INTEGER_ROWS:
        raise _NotPlainError
    _check_nesting(content, rows, others)
    scores, env_id = document["scores"], document.get("env_id")
    if not isinstance(scores, simdjson.Array) or len(scores) > MAX_SEQUENCES:
        raise _NotPlainError
    numbers = list(scores)
    are_floats = all(type(number) is float for number in numbers)
    if not are_floats or (env_id is not None and type(env_id) is not int):
        raise _NotPlainError
    return PlainGroup(rows, np.array(numbers, dtype=np.float64), env_id, others, set(keys))


def _rows(field: Any, kind: Any, dtype: Any) -> Rows:
    if not isinstance(field, simdjson.Array):
        raise _NotPlainError
    rows: Any = field
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    values = np.frombuffer(rows.as_buffer(of_type=kind), dtype=dtype)
    # Text in a row has a length too, but adds no number to the buffer.
    if int(lengths.sum()) != len(values):
        raise _NotPlainError
    return Rows(values, lengths)


def _check_nesting(content: Bytes, rows: dict[str, Rows], others: dict[str, bytes]) -> None:
    """Reject rows that contain lists: the buffers flatten them, and lengths may still agree.

    Every list opens with a bracket, so the brackets of the group are counted.
    """
    brackets = 1 + sum(1 + len(field.lengths) for field in rows.values())
    for text in others.values():
        brackets += text.count(b"[")
    escaped = bool(others) and b"\\u005" in bytes(content)
    # numpy counts a byte five times as fast as bytes.count.
    found = np.count_nonzero(np.frombuffer(content, dtype=np.uint8) == ord("["))
    if escaped or found != brackets:
        raise _NotPlainError
