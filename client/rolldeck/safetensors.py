"""Write and read safetensors files with numpy alone.

Numpy has no bfloat16 and no numbers of eight bits. Their bits travel as they are, in arrays with
one field that is called what they are: ``dtype([("BF16", "<u2")])``. Such an array is as good as
any other for storing, sending and comparing; :func:`float32_of` and torch
(``torch.from_numpy(array.view("i2")).view(torch.bfloat16)``) reckon with it.

Source of the format: https://github.com/huggingface/safetensors#format. Eight bytes give the
length of a JSON header (unsigned, little endian), then the header, then every tensor's bytes in
C order, little endian, without gaps.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import InvalidMessage, TensorSpec

NAMES: Final = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
}
Content = bytes | bytearray | memoryview

DTYPES: Final = {name: np.dtype(numpy_name) for numpy_name, name in NAMES.items()}
BITS: Final = {
    "BF16": np.dtype([("BF16", "<u2")]),
    "F8_E4M3": np.dtype([("F8_E4M3", "u1")]),
    "F8_E5M2": np.dtype([("F8_E5M2", "u1")]),
}
"""Arrays of numbers that numpy lacks, by the name of the numbers."""
MAX_HEADER_BYTES: Final = 100_000_000


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def encode(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a safetensors file holding `tensors`.

    Raises:
        InvalidMessage: If there are none, or one has a dtype that the format lacks.
    """
    if not tensors:
        raise InvalidMessage("no tensors to write")
    header: dict[str, _Entry] = {}
    chunks: list[bytes] = []
    offset = 0
    # Widest first keeps every tensor aligned, as the reference implementation orders them.
    for name in sorted(tensors, key=lambda key: (-tensors[key].dtype.itemsize, key)):
        array = tensors[name]
        kind = kind_of(array.dtype)
        if kind is None:
            raise InvalidMessage(f"{name}: safetensors has no dtype for {array.dtype}")
        # np.ascontiguousarray would turn a scalar of shape [] into one of shape [1].
        chunk = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        span = (offset, offset + len(chunk))
        header[name] = _Entry(kind, list(array.shape), span)
        chunks.append(chunk)
        offset = span[1]
    head = msgspec.json.encode(header)
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *chunks])


def specs(content: Content) -> list[TensorSpec]:
    """Return what the file `content` holds, in the order of its bytes.

    Raises:
        InvalidMessage: If it is not a whole safetensors file.
    """
    entries, _ = _entries(content)
    return [TensorSpec(name=name, dtype=entry.dtype, shape=entry.shape) for name, entry in entries]


def decode(content: Content) -> dict[str, NDArray[Any]]:
    """Return views of the tensors in the file `content`, read-only where it is.

    Raises:
        InvalidMessage: If it is not a whole safetensors file.
    """
    entries, start = _entries(content)
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in entries:
        flat = np.frombuffer(
            content,
            dtype=_dtype_of(entry.dtype).newbyteorder("<"),
            count=math.prod(entry.shape),
            offset=start + entry.data_offsets[0],
        )
        tensors[name] = flat.reshape(entry.shape)
    return tensors


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """Return what the format calls such numbers; None if it has none of them."""
    if dtype.names is not None:
        kind = dtype.names[0]
        return kind if BITS.get(kind) == dtype else None
    return NAMES.get(dtype.name)


def float32_of(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the same numbers as float32, exactly.

    Args:
        bits: Of bfloat16: ``dtype([("BF16", "<u2")])``, any shape.

    Raises:
        InvalidMessage: If they are of another kind.
    """
    if bits.dtype != BITS["BF16"]:
        raise InvalidMessage(f"these are no bfloat16: {bits.dtype}")
    # A bfloat16 is the upper half of the float32.
    widened: NDArray[np.float32] = (bits["BF16"].astype("<u4") << 16).view("<f4")
    return widened


def _dtype_of(kind: str) -> np.dtype[Any]:
    return DTYPES[kind] if kind in DTYPES else BITS[kind]


def _entries(content: Content) -> tuple[list[tuple[str, _Entry]], int]:
    """Return the checked entries in the order of their bytes, and where the bytes start."""
    length = int.from_bytes(content[:8], "little")
    start = 8 + length
    if len(content) < 8 or length > MAX_HEADER_BYTES or start > len(content):
        raise InvalidMessage("not a safetensors file: its header is cut off")
    try:
        raw = msgspec.json.decode(content[8:start], type=dict[str, msgspec.Raw])
        raw.pop("__metadata__", None)
        header = {name: msgspec.json.decode(item, type=_Entry) for name, item in raw.items()}
    except msgspec.DecodeError as error:
        raise InvalidMessage(f"not a safetensors file: {error}") from error
    entries = sorted(header.items(), key=lambda item: item[1].data_offsets)
    reached = 0
    for name, entry in entries:
        first, end = entry.data_offsets
        if first != reached or end - first != _size_bytes(name, entry):
            raise InvalidMessage(f"{name}: offsets {first}..{end} do not fit its shape and place")
        reached = end
    if start + reached != len(content):
        raise InvalidMessage(f"{len(content) - start} bytes of tensors, the header says {reached}")
    return entries, start


def _size_bytes(name: str, entry: _Entry) -> int:
    if entry.dtype not in DTYPES and entry.dtype not in BITS:
        raise InvalidMessage(f"{name}: unknown dtype {entry.dtype!r}")
    if any(size < 0 for size in entry.shape):
        raise InvalidMessage(f"{name}: negative size in shape {entry.shape}")
    return _dtype_of(entry.dtype).itemsize * math.prod(entry.shape)
