import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from rolldeck import safetensors_header
from rolldeck.wire import InvalidMessage


def parse(file: bytes) -> safetensors_header.Header:
    length = safetensors_header.header_length(file[:8], file_bytes=len(file))
    return safetensors_header.parse(file[8 : 8 + length], file_bytes=len(file))


def file_of(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(begin: int, end: int, *, dtype: str = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_file_of_the_library_is_read_unchanged() -> None:
    file = save(
        {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.int64)}, metadata={"by": "tests"}
    )

    header = parse(file)

    assert {t.name: (t.dtype, t.shape) for t in header.tensors} == {
        "w": ("F32", (2, 3)),
        "b": ("I64", (3,)),
    }
    assert header.file_bytes == len(file)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
            lambda name: name != "__metadata__"
        ),
        st.tuples(
            st.sampled_from(["float32", "float16", "int64", "uint8", "bool"]),
            st.lists(st.integers(0, 4), max_size=3),
        ),
        max_size=5,
    )
)
def test_every_file_of_the_library_is_accepted(tensors: dict[str, tuple[str, list[int]]]) -> None:
    file = save({name: np.zeros(shape, dtype) for name, (dtype, shape) in tensors.items()})

    assert {t.name: list(t.shape) for t in parse(file).tensors} == {
        name: shape for name, (_, shape) in tensors.items()
    }


@given(st.binary(max_size=200))
def test_damaged_bytes_raise_only_the_named_error(noise: bytes) -> None:
    try:
        parse(noise)
    except InvalidMessage:
        return


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"", "at least 8 required"),
        (struct.pack("<Q", 1 << 40), "exceeds the limit"),
        (struct.pack("<Q", 100) + b"{}", "exceeds the file"),
        (file_of(b""), "does not start with"),
        (file_of(b"[]"), "does not start with"),
        (file_of(b"{nope"), "invalid header"),
        (file_of({"w": 1}), "invalid header"),
        (file_of({"__metadata__": {"a": 1}}), "invalid header"),
        (file_of({"w": entry(0, 4) | {"more": 1}}, bytes(4)), "invalid header"),
        (file_of({"w": entry(0, 4, shape=[-1])}, bytes(4)), "invalid header"),
        (file_of({"w": entry(0, 4, shape=[1.0])}, bytes(4)), "invalid header"),
        (file_of({"w": entry(0, 4, dtype="F31")}, bytes(4)), "unknown dtype"),
        (file_of({"w": entry(0, 4, shape=[2])}, bytes(4)), "do not fit"),
        (file_of({"w": entry(0, 1, dtype="F4", shape=[1])}, bytes(1)), "do not fit"),
        (file_of({"w": entry(4, 0, shape=[])}, bytes(4)), "do not fit"),
        (file_of({"w": entry(4, 8)}, bytes(8)), "gap"),
        (file_of({"a": entry(0, 4), "b": entry(0, 4)}, bytes(4)), "overlap"),
        (file_of({"w": entry(0, 4)}, bytes(5)), "has 5"),
        (file_of({"w": entry(0, 4)}, bytes(3)), "describes"),
    ],
)
def test_a_malformed_file_is_refused_with_the_reason(file: bytes, reason: str) -> None:
    if reason == "has 5":
        reason = "header describes"

    with pytest.raises(InvalidMessage, match=reason):
        parse(file)
