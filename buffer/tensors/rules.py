"""Rules for pushes of tensors, and the safetensors header of an answer."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from rolldeck.errors import InvalidMessageError
from rolldeck.safetensors import LENGTH_BYTES, Entry, Tensor, header_of
from web.rules.errors import FieldError, InvalidData

MOST_KEYS: Final = 8192
"""Maximum number of keys or prefixes in one request."""
MOST_KEY_CHARACTERS: Final = 500
MOST_CODEC_CHARACTERS: Final = 40
AFTER_PREFIX: Final = chr(0x10FFFF)
"""The last character: sorts behind every key with the same prefix."""


class InvalidTensors(FieldError, InvalidData):
    """A body of tensors, a key or a prefix is invalid; `field` is its path."""


class Part(NamedTuple):
    """Location of a tensor in a safetensors file."""

    tensor: Tensor
    offset: int
    """In bytes, from the begin of the file."""
    codec: str
    """Metadata of the file under the name of the tensor; empty if there is none."""


def parts_of(body: bytes) -> list[Part]:
    """Return the tensors of a safetensors file, in the order of their bytes.

    Raises:
        InvalidTensors: If it is incomplete or has trailing bytes, or if a tensor has an unknown
            dtype, a shape that does not fit its bytes, or an invalid key.
    """
    try:
        header = header_of(body)
    except InvalidMessageError as error:
        raise InvalidTensors("body", str(error)) from error
    if not header.tensors:
        raise InvalidTensors("body", "contains no tensors")
    if len(header.tensors) > MOST_KEYS:
        raise InvalidTensors("body", f"{len(header.tensors)} tensors, at most {MOST_KEYS} allowed")
    for tensor in header.tensors:
        _check_key("body", tensor.name)
    names = {tensor.name for tensor in header.tensors}
    for name, codec in header.metadata.items():
        if name not in names:
            raise InvalidTensors("body", f"metadata {name!r} names no tensor of the body")
        if len(codec) > MOST_CODEC_CHARACTERS or "\x00" in codec:
            message = f"metadata {name!r}: at most {MOST_CODEC_CHARACTERS} characters without NUL"
            raise InvalidTensors("body", message)
    start = LENGTH_BYTES + header.header_bytes
    return [
        Part(tensor, start + tensor.begin, header.metadata.get(tensor.name, ""))
        for tensor in header.tensors
    ]


def check_keys(field: str, keys: Iterable[str]) -> None:
    """Check keys or prefixes of a request.

    Raises:
        InvalidTensors: If one is empty, too long or contains NUL or the last character.
    """
    for place, key in enumerate(keys):
        _check_key(f"{field}[{place}]", key)


def _check_key(field: str, key: str) -> None:
    if not 1 <= len(key) <= MOST_KEY_CHARACTERS:
        message = f"a key has {len(key)} characters, 1 to {MOST_KEY_CHARACTERS} allowed"
        raise InvalidTensors(field, message)
    if "\x00" in key or AFTER_PREFIX in key:
        raise InvalidTensors(field, f"the key {key!r} contains a character that is not allowed")


def check_moves(moves: Mapping[str, str]) -> None:
    """Check that every key has at most one of the prefixes.

    Raises:
        InvalidTensors: If a prefix is invalid or begins with another one.
    """
    check_keys("moves", moves)
    check_keys("moves", moves.values())
    before = ""
    for prefix in sorted(moves):
        if before and prefix.startswith(before):
            raise InvalidTensors("moves", f"the prefix {prefix!r} begins with {before!r}")
        before = prefix


def begin_of(tensors: Iterable[tuple[str, str, list[int], int, str]]) -> bytes:
    """Return the begin of a safetensors file, up to the bytes of the first tensor.

    Args:
        tensors: Key, dtype, shape, size in bytes and codec of each, in the order of their bytes.
    """
    entries: dict[str, Entry | dict[str, str]] = {}
    codecs, offset = {}, 0
    for key, dtype, shape, size, codec in tensors:
        entries[key] = Entry(dtype, shape, (offset, offset + size))
        offset += size
        if codec:
            codecs[key] = codec
    if codecs:
        entries["__metadata__"] = codecs
    text = msgspec.json.encode(entries)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
