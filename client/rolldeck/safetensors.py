"""Write and read safetensors files with numpy alone.

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
# Numpy has no such numbers, but trainers publish them as bytes of their own making.
OTHER_ITEM_BYTES: Final = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
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
        if array.dtype.name not in NAMES:
            raise InvalidMessage(f"{name}: safetensors has no dtype for {array.dtype}")
        # np.ascontiguousarray would turn a scalar of shape [] into one of shape [1].
        chunk = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        span = (offset, offset + len(chunk))
        header[name] = _Entry(NAMES[array.dtype.name], list(array.shape), span)
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
        InvalidMessage: If it is not a whole safetensors file, or holds numbers numpy lacks.
    """
    entries, start = _entries(content)
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in entries:
        if entry.dtype not in DTYPES:
            raise InvalidMessage(f"{name}: numpy has no dtype for {entry.dtype}")
        flat = np.frombuffer(
            content,
            dtype=DTYPES[entry.dtype].newbyteorder("<"),
            count=math.prod(entry.shape),
            offset=start + entry.data_offsets[0],
        )
        tensors[name] = flat.reshape(entry.shape)
    return tensors


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
    item = DTYPES[entry.dtype].itemsize if entry.dtype in DTYPES else 0
    item = item or OTHER_ITEM_BYTES.get(entry.dtype, 0)
    if not item:
        raise InvalidMessage(f"{name}: unknown dtype {entry.dtype!r}")
    if any(size < 0 for size in entry.shape):
        raise InvalidMessage(f"{name}: negative size in shape {entry.shape}")
    return item * math.prod(entry.shape)
