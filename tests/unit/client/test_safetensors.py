"""Our safetensors files and those of the reference package are interchangeable."""

import json
import struct
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import safetensors.numpy as reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load as load_torch
from safetensors.torch import save as save_torch

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError
from rolldeck.safetensors import TORCH_KINDS, array_of, header_of, read_header

Arrays = dict[str, NDArray[Any]]
DTYPES = sorted(safetensors.NAMES)
TENSORS: Arrays = {
    "value_net.0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "value_net.0.bias": np.zeros(0, dtype=np.float32),
    "count": np.array(7, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "half": np.linspace(0, 1, 5, dtype=np.float16),
    "columns first": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
    "big endian": np.arange(3, dtype=">i4"),
}


def assert_same(actual: Arrays, expected: Arrays) -> None:
    assert set(actual) == set(expected)
    for name, array in expected.items():
        assert actual[name].shape == array.shape, name
        assert actual[name].dtype.name == array.dtype.name, name
        np.testing.assert_array_equal(actual[name], array)


def test_the_package_reads_our_files() -> None:
    assert_same(reference.load(safetensors.encode(TENSORS)), TENSORS)


def test_we_read_files_of_the_package() -> None:
    plain = {name: np.ascontiguousarray(x) for name, x in TENSORS.items() if name != "big endian"}
    plain["count"] = TENSORS["count"]
    content = reference.save(plain, metadata={"format": "pt"})

    assert_same(safetensors.decode(content), plain)


def test_our_bytes_equal_the_bytes_of_the_package() -> None:
    tensors: Arrays = {
        "b": np.ones((2, 3), dtype=np.float32),
        "a": np.zeros(4, dtype=np.float32),
        "wide": np.ones(2, dtype=np.float64),
        "narrow": np.ones(3, dtype=np.uint8),
    }

    assert safetensors.encode(tensors) == reference.save(tensors)


@given(dtype=st.sampled_from(DTYPES), shape=st.lists(st.integers(0, 4), max_size=4))
def test_every_dtype_and_shape_is_preserved(dtype: str, shape: list[int]) -> None:
    tensors = {"x": np.ones(shape, dtype=dtype), "y": np.zeros(shape, dtype=dtype)}

    assert_same(safetensors.decode(safetensors.encode(tensors)), tensors)


@pytest.mark.parametrize("name", sorted(TORCH_KINDS))
def test_dtypes_of_torch_are_preserved_bit_by_bit(name: str) -> None:
    dtype = getattr(torch, name.removeprefix("torch."))
    tensors = {"x": torch.randn(3, 5).to(dtype), "none": torch.zeros(2, 0).to(dtype)}
    tensors["one"] = torch.tensor(0.5).to(dtype)
    content = safetensors.encode({key: array_of(value) for key, value in tensors.items()})

    assert {spec.dtype for spec in safetensors.specs(content)} == {TORCH_KINDS[name]}
    assert content == save_torch(tensors)
    again = safetensors.decode(content)
    assert safetensors.encode(again) == content
    for key, tensor in load_torch(content).items():
        assert (tensor.dtype, tuple(tensor.shape)) == (dtype, again[key].shape)


def test_a_bfloat16_is_a_float32_with_fewer_bits() -> None:
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)

    widened = safetensors.float32_of(array_of(numbers))

    assert widened.tobytes() == numbers.float().numpy().tobytes()
    with pytest.raises(InvalidMessageError, match="expected bfloat16"):
        safetensors.float32_of(np.ones(2))


def test_the_contents_are_described_without_reading_them() -> None:
    specs = {
        spec.name: (spec.dtype, spec.shape)
        for spec in safetensors.specs(safetensors.encode(TENSORS))
    }

    assert specs["value_net.0.weight"] == ("F32", [3, 4])
    assert specs["count"] == ("I64", [])


GOOD = safetensors.encode({"x": np.arange(4, dtype=np.float32)})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        b"\xff" * 100,
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD.replace(b"[0,16]", b"[1,16]"),
        GOOD.replace(b"[0,16]", b"[0,99]"),
        GOOD.replace(b'"F32"', b'"F99"'),
        GOOD.replace(b"[4]", b"[5]"),
        GOOD.replace(b'{"x"', b'["x"'),
    ],
)
def test_a_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        safetensors.decode(content)


PAIRS = np.zeros(2, dtype=[("BF16", "<u2"), ("more", "<u2")])


@pytest.mark.parametrize(
    "tensors", [{}, {"x": np.array(["word"])}, {"x": np.ones(2, complex)}, {"x": PAIRS}]
)
def test_unsupported_arrays_are_refused(tensors: Arrays) -> None:
    with pytest.raises(InvalidMessageError):
        safetensors.encode(tensors)


def file_of(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(begin: int, end: int, *, dtype: str = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_file_of_the_library_is_read_unchanged() -> None:
    file = reference.save(
        {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.int64)}, metadata={"by": "tests"}
    )

    header = header_of(file)
    assert read_header(BytesIO(file), file_bytes=len(file)) == header

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
    file = reference.save(
        {name: np.zeros(shape, dtype) for name, (dtype, shape) in tensors.items()}
    )

    assert {t.name: list(t.shape) for t in header_of(file).tensors} == {
        name: shape for name, (_, shape) in tensors.items()
    }


@given(st.binary(max_size=200))
def test_damaged_bytes_raise_only_the_named_error(noise: bytes) -> None:
    try:
        header_of(noise)
    except InvalidMessageError:
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

    with pytest.raises(InvalidMessageError, match=reason):
        header_of(file)
