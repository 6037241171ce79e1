"""Write and read safetensors files with numpy alone.

Numpy lacks bfloat16 and 8-bit floats. Their bits are stored in structured arrays with one field
named after the type: ``dtype([("BF16", "<u2")])``. Such arrays can be stored, sent and compared
like any other; for arithmetic, convert them with :func:`float32_of` or torch
(``torch.from_numpy(array.view("i2")).view(torch.bfloat16)``).

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
"""Structured dtypes for types that numpy lacks, by safetensors name."""
MAX_HEADER_BYTES: Final = 100_000_000


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def encode(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Encode `tensors` as a safetensors file.

    Raises:
        InvalidMessage: If there are no tensors, or one has an unsupported dtype.
    """
    if not tensors:
        raise InvalidMessage("no tensors to write")
    header: dict[str, _Entry] = {}
    chunks: list[bytes] = []
    offset = 0
    # Sorted by item size, largest first, which keeps tensors aligned as in the reference code.
    for name in sorted(tensors, key=lambda key: (-tensors[key].dtype.itemsize, key)):
        array = tensors[name]
        kind = kind_of(array.dtype)
        if kind is None:
            raise InvalidMessage(f"{name}: safetensors has no dtype for {array.dtype}")
        # np.ascontiguousarray would turn a scalar of shape [] into shape [1].
        chunk = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        span = (offset, offset + len(chunk))
        header[name] = _Entry(kind, list(array.shape), span)
        chunks.append(chunk)
        offset = span[1]
    head = msgspec.json.encode(header)
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *chunks])


def specs(content: Content) -> list[TensorSpec]:
    """Return the tensor specs of the file `content`, in the order of its bytes.

    Raises:
        InvalidMessage: If it is not a complete safetensors file.
    """
    entries, _ = _entries(content)
    return [TensorSpec(name=name, dtype=entry.dtype, shape=entry.shape) for name, entry in entries]


def decode(content: Content) -> dict[str, NDArray[Any]]:
    """Return views of the tensors in the file `content`, read-only if `content` is.

    Raises:
        InvalidMessage: If it is not a complete safetensors file.
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
    """Return the safetensors name of a dtype; None if it is unsupported."""
    if dtype.names is not None:
        kind = dtype.names[0]
        return kind if BITS.get(kind) == dtype else None
    return NAMES.get(dtype.name)


def float32_of(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Convert bfloat16 bits to float32, exactly.

    Args:
        bits: Bits of bfloat16: ``dtype([("BF16", "<u2")])``, any shape.

    Raises:
        InvalidMessage: If they have another dtype.
    """
    if bits.dtype != BITS["BF16"]:
        raise InvalidMessage(f"expected bfloat16 bits, not {bits.dtype}")
    # A bfloat16 is the upper half of a float32.
    widened: NDArray[np.float32] = (bits["BF16"].astype("<u4") << 16).view("<f4")
    return widened


def _dtype_of(kind: str) -> np.dtype[Any]:
    return DTYPES[kind] if kind in DTYPES else BITS[kind]


def _entries(content: Content) -> tuple[list[tuple[str, _Entry]], int]:
    """Return the checked entries in the order of their bytes, and the start of the bytes."""
    length = int.from_bytes(content[:8], "little")
    start = 8 + length
    if len(content) < 8 or length > MAX_HEADER_BYTES or start > len(content):
        raise InvalidMessage("not a safetensors file: its header is incomplete")
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
            raise InvalidMessage(f"{name}: offsets {first}..{end} do not match its shape")
        reached = end
    if start + reached != len(content):
        raise InvalidMessage(f"{len(content) - start} bytes of tensors, {reached} in the header")
    return entries, start


def _size_bytes(name: str, entry: _Entry) -> int:
    if entry.dtype not in DTYPES and entry.dtype not in BITS:
        raise InvalidMessage(f"{name}: unknown dtype {entry.dtype!r}")
    if any(size < 0 for size in entry.shape):
        raise InvalidMessage(f"{name}: negative size in shape {entry.shape}")
    return _dtype_of(entry.dtype).itemsize * math.prod(entry.shape)
