"""Parse and validate the header of a safetensors file.

Format: 8 bytes with the header length N as a little-endian unsigned integer; N bytes of JSON, which
start with ``{`` and may end in spaces; then the tensors' bytes. The header maps each name to
``{"dtype", "shape", "data_offsets": [begin, end]}``, with offsets relative to the end of the
header. Offsets leave no gap and reach the end of the file, so every byte is accounted for.

Source: https://github.com/huggingface/safetensors, README, section "Format".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from rolldeck.wire import InvalidMessage

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


def header_length(prefix: bytes, *, file_bytes: int) -> int:
    """Return the length of the JSON text that follows the first eight bytes.

    Raises:
        InvalidMessage: If the file is too short, or the header too long.
    """
    if len(prefix) < LENGTH_BYTES:
        raise InvalidMessage(f"{len(prefix)} bytes, at least {LENGTH_BYTES} required for a header")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise InvalidMessage(f"a header of {length} bytes exceeds the limit {MAX_HEADER_BYTES}")
    if LENGTH_BYTES + length > file_bytes:
        raise InvalidMessage(f"the header of {length} bytes exceeds the file of {file_bytes} bytes")
    return length


def parse(text: bytes, *, file_bytes: int) -> Header:
    """Parse and validate the header.

    Args:
        text: The JSON text, of the length given by :func:`header_length`.
        file_bytes: Length of the whole file.

    Raises:
        InvalidMessage: If the header violates the format.
    """
    if not text.startswith(b"{"):
        raise InvalidMessage("the header does not start with {")
    try:
        raw: dict[str, msgspec.Raw] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        metadata: dict[str, str] = {}
        if "__metadata__" in raw:
            metadata = msgspec.json.decode(raw.pop("__metadata__"), type=dict[str, str])
        tensors = [_tensor(name, entry) for name, entry in raw.items()]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidMessage(f"invalid header: {error}") from error
    header = Header(
        tensors=tuple(sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))),
        header_bytes=len(text),
        metadata=metadata,
    )
    _check_offsets(header, file_bytes)
    return header


def _tensor(name: str, raw: msgspec.Raw) -> Tensor:
    entry = msgspec.json.decode(raw, type=Entry)
    begin, end = entry.data_offsets
    if entry.dtype not in DTYPE_BITS:
        raise InvalidMessage(f"tensor {name!r} has the unknown dtype {entry.dtype!r}")
    bits = math.prod(entry.shape) * DTYPE_BITS[entry.dtype]
    if bits % 8 or end - begin != bits // 8:
        raise InvalidMessage(
            f"tensor {name!r}: offsets {begin} to {end} do not fit "
            f"shape {entry.shape} of {entry.dtype}"
        )
    return Tensor(name=name, dtype=entry.dtype, shape=tuple(entry.shape), begin=begin, end=end)


def _check_offsets(header: Header, file_bytes: int) -> None:
    reached = 0
    for tensor in header.tensors:
        if tensor.begin != reached:
            raise InvalidMessage(
                f"tensor {tensor.name!r} begins at {tensor.begin}, not at {reached}: "
                "tensors overlap or leave a gap"
            )
        reached = tensor.end
    if header.file_bytes != file_bytes:
        raise InvalidMessage(
            f"the file has {file_bytes} bytes, its header describes {header.file_bytes}"
        )
