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

from rolldeck.safetensors_header import LENGTH_BYTES, Entry, Header, header_length, parse
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


def encode(
    tensors: Mapping[str, NDArray[Any]], *, metadata: Mapping[str, str] | None = None
) -> bytes:
    """Encode `tensors` as a safetensors file, with `metadata` in its header.

    Raises:
        InvalidMessage: If there are no tensors, or one has an unsupported dtype.
    """
    if not tensors:
        raise InvalidMessage("no tensors to write")
    header: dict[str, Entry | Mapping[str, str]] = {}
    if metadata:
        header["__metadata__"] = metadata
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
        header[name] = Entry(kind, list(array.shape), span)
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
    return [
        TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=list(tensor.shape))
        for tensor in _header_of(content).tensors
    ]


def decode(content: Content) -> dict[str, NDArray[Any]]:
    """Return views of the tensors in the file `content`, read-only if `content` is.

    Raises:
        InvalidMessage: If it is not a complete safetensors file, or holds a type that numpy lacks
            and :data:`BITS` does not have.
    """
    header = _header_of(content)
    tensors: dict[str, NDArray[Any]] = {}
    for tensor in header.tensors:
        flat = np.frombuffer(
            content,
            dtype=_dtype_of(tensor.dtype).newbyteorder("<"),
            count=math.prod(tensor.shape),
            offset=LENGTH_BYTES + header.header_bytes + tensor.begin,
        )
        tensors[tensor.name] = flat.reshape(tensor.shape)
    return tensors


def metadata_of(content: Content) -> Mapping[str, str]:
    """Return the metadata in the header of the file `content`.

    Raises:
        InvalidMessage: If it is not a complete safetensors file.
    """
    return _header_of(content).metadata


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
    found = DTYPES.get(kind, BITS.get(kind))
    if found is None:
        raise InvalidMessage(f"numpy has no dtype for {kind}")
    return found


def _header_of(content: Content) -> Header:
    length = header_length(bytes(content[:LENGTH_BYTES]), file_bytes=len(content))
    text = bytes(content[LENGTH_BYTES : LENGTH_BYTES + length])
    return parse(text, file_bytes=len(content))
