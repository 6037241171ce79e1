"""Weights and tensors as safetensors, in numpy only.

Numpy lacks bfloat16 and 8-bit floats. Their bits are stored in structured arrays with one field
named after the type: ``dtype([("BF16", "<u2")])``. Such arrays can be stored, sent and compared
like any other; for arithmetic, convert them with :func:`float32_of` or torch
(``torch.from_numpy(array.view("i2")).view(torch.bfloat16)``).

A file has 8 bytes with the length of the header (unsigned, little endian); the header in JSON,
which starts with ``{`` and may end in spaces; then every tensor's bytes in C order, little endian.
The header maps each name to ``{"dtype", "shape", "data_offsets": [begin, end]}``, with offsets
relative to the end of the header. Offsets leave no gap and reach the end of the file, so every byte
is accounted for. Source: https://github.com/huggingface/safetensors, README, section "Format".
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    TensorSpec,
)

# Write and read safetensors files with numpy, and read their headers alone.

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
LENGTH_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 100_000_000
DTYPE_BITS: Final = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}

Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor in the JSON text."""

    dtype: str
    shape: Annotated[list[Natural], Meta(max_length=64)]
    data_offsets: tuple[Natural, Natural]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of the file; `begin` and `end` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Length of its bytes."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Tensors of a file, in the order of their bytes."""

    tensors: tuple[Tensor, ...]
    header_bytes: int
    """Length of the JSON text, without the eight bytes before it."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_bytes(self) -> int:
        """Required length of the whole file."""
        body = self.tensors[-1].end if self.tensors else 0
        return LENGTH_BYTES + self.header_bytes + body


class Readable(Protocol):
    """A file at its beginning."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""


def encode(
    tensors: Mapping[str, NDArray[Any]], *, metadata: Mapping[str, str] | None = None
) -> bytes:
    """Encode `tensors` as a safetensors file, with `metadata` in its header.

    Raises:
        InvalidMessageError: If there are no tensors, or one has an unsupported dtype.
    """
    if not tensors:
        raise InvalidMessageError("no tensors to write")
    header: dict[str, Entry | Mapping[str, str]] = {}
    if metadata:
        header["__metadata__"] = metadata
    chunks: list[memoryview] = []
    offset = 0
    # Sorted by item size, largest first, which keeps tensors aligned as in the reference code.
    for name in sorted(tensors, key=lambda key: (-tensors[key].dtype.itemsize, key)):
        array = tensors[name]
        kind = kind_of(array.dtype)
        if kind is None:
            raise InvalidMessageError(f"{name}: safetensors has no dtype for {array.dtype}")
        # A view of the array, unless its bytes have another order.
        chunk = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        chunk = chunk.reshape(-1).view(np.uint8)
        span = (offset, offset + len(chunk))
        header[name] = Entry(kind, list(array.shape), span)
        chunks.append(chunk.data)
        offset = span[1]
    head = msgspec.json.encode(header)
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *chunks])


def specs(content: Content) -> list[TensorSpec]:
    """Return the tensor specs of the file `content`, in the order of its bytes.

    Raises:
        InvalidMessageError: If it is not a complete safetensors file.
    """
    return [
        TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=list(tensor.shape))
        for tensor in header_of(content).tensors
    ]


def decode(content: Content) -> dict[str, NDArray[Any]]:
    """Return views of the tensors in the file `content`, read-only if `content` is.

    Raises:
        InvalidMessageError: If it is not a complete safetensors file, or holds a type that numpy
            lacks and :data:`BITS` does not have.
    """
    header = header_of(content)
    tensors: dict[str, NDArray[Any]] = {}
    for tensor in header.tensors:
        dtype = DTYPES.get(tensor.dtype, BITS.get(tensor.dtype))
        if dtype is None:
            raise InvalidMessageError(f"numpy has no dtype for {tensor.dtype}")
        flat = np.frombuffer(
            content,
            dtype=dtype.newbyteorder("<"),
            count=math.prod(tensor.shape),
            offset=LENGTH_BYTES + header.header_bytes + tensor.begin,
        )
        tensors[tensor.name] = flat.reshape(tensor.shape)
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
        InvalidMessageError: If they have another dtype.
    """
    if bits.dtype != BITS["BF16"]:
        raise InvalidMessageError(f"expected bfloat16 bits, not {bits.dtype}")
    # A bfloat16 is the upper half of a float32.
    widened: NDArray[np.float32] = (bits["BF16"].astype("<u4") << 16).view("<f4")
    return widened


def header_of(content: Content) -> Header:
    """Return the header of the file `content`.

    Raises:
        InvalidMessageError: If it violates the format, or the file is incomplete or has trailing
            bytes.
    """
    length = _header_length(bytes(content[:LENGTH_BYTES]), len(content))
    return _parsed(bytes(content[LENGTH_BYTES : LENGTH_BYTES + length]), len(content))


def read_header(file: Readable, *, file_bytes: int) -> Header:
    """Return the header as :func:`header_of` does, without reading the tensors."""
    length = _header_length(file.read(LENGTH_BYTES), file_bytes)
    return _parsed(file.read(length), file_bytes)


def _header_length(prefix: bytes, file_bytes: int) -> int:
    if len(prefix) < LENGTH_BYTES:
        raise InvalidMessageError(
            f"{len(prefix)} bytes, at least {LENGTH_BYTES} required for a header"
        )
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise InvalidMessageError(
            f"a header of {length} bytes exceeds the limit {MAX_HEADER_BYTES}"
        )
    if LENGTH_BYTES + length > file_bytes:
        raise InvalidMessageError(
            f"the header of {length} bytes exceeds the file of {file_bytes} bytes"
        )
    return length


def _parsed(text: bytes, file_bytes: int) -> Header:
    if not text.startswith(b"{"):
        raise InvalidMessageError("the header does not start with {")
    try:
        raw: dict[str, msgspec.Raw] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        metadata: dict[str, str] = {}
        if "__metadata__" in raw:
            metadata = msgspec.json.decode(raw.pop("__metadata__"), type=dict[str, str])
        entries = {name: msgspec.json.decode(entry, type=Entry) for name, entry in raw.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidMessageError(f"invalid header: {error}") from error
    tensors = []
    for name, entry in entries.items():
        begin, end = entry.data_offsets
        if entry.dtype not in DTYPE_BITS:
            raise InvalidMessageError(f"tensor {name!r} has the unknown dtype {entry.dtype!r}")
        bits = math.prod(entry.shape) * DTYPE_BITS[entry.dtype]
        if bits % 8 or end - begin != bits // 8:
            raise InvalidMessageError(
                f"tensor {name!r}: offsets {begin} to {end} do not fit "
                f"shape {entry.shape} of {entry.dtype}"
            )
        tensors.append(
            Tensor(name=name, dtype=entry.dtype, shape=tuple(entry.shape), begin=begin, end=end)
        )
    header = Header(
        tensors=tuple(sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))),
        header_bytes=len(text),
        metadata=metadata,
    )
    reached = 0
    for tensor in header.tensors:
        if tensor.begin != reached:
            raise InvalidMessageError(
                f"tensor {tensor.name!r} begins at {tensor.begin}, not at {reached}: "
                "tensors overlap or leave a gap"
            )
        reached = tensor.end
    if header.file_bytes != file_bytes:
        raise InvalidMessageError(
            f"the file has {file_bytes} bytes, its header describes {header.file_bytes}"
        )
    return header


# Framework tensors as numpy arrays of the same bits, views where possible.

TORCH_KINDS: Final = {
    "torch.bfloat16": "BF16",
    "torch.float8_e4m3fn": "F8_E4M3",
    "torch.float8_e5m2": "F8_E5M2",
}


def array_of(tensor: Any) -> NDArray[Any]:
    """Return `tensor` as an array; types that numpy lacks as :data:`BITS`.

    On the CPU the array is a view.

    Args:
        tensor: A numpy array, or a torch tensor on any device, with or without a gradient. One
            that is not on the CPU is copied there, in its own type.
    """
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    kind = TORCH_KINDS.get(str(getattr(tensor, "dtype", "")))
    if kind is None:
        return np.asarray(tensor)
    # A torch tensor implies that torch is loaded; this package does not import it.
    torch = sys.modules["torch"]
    dtype = BITS[kind]
    whole = tensor.contiguous().view(torch.int16 if dtype.itemsize == 2 else torch.uint8)
    bits: NDArray[Any] = whole.numpy().view(dtype)
    return bits
