"""API schemas of stored tensors."""

from typing import Annotated

from msgspec import Meta, Struct

from buffer.tensors.rules import MOST_KEYS
from web.rules.pages import Page

Keys = Annotated[list[str], Meta(max_length=MOST_KEYS)]


class TensorRow(Struct, frozen=True, kw_only=True):
    """A stored tensor, without its bytes."""

    key: str
    dtype: str
    """Name of safetensors, such as ``F32``."""
    codec: str
    """Codec of a value that is no tensor, from the metadata of the pushed file; else empty."""
    shape: list[int]
    size_bytes: int
    crc32: int


class TensorList(Page[TensorRow], frozen=True, kw_only=True):
    """Stored tensors, in the order of the bytes of their keys."""


class TensorReceipt(Struct, frozen=True, kw_only=True):
    """Result of a push of tensors; they are durable."""

    keys: int
    """Number of stored keys."""
    size_bytes: int
    """Size of the tensors."""


class TensorKeys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors to read."""

    keys: Annotated[list[str], Meta(min_length=1, max_length=MOST_KEYS)]


class TensorSelection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors to delete: by key, and by prefix of their keys."""

    keys: Keys = []
    prefixes: Keys = []


class TensorMoves(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prefixes of keys with the prefixes that replace them."""

    moves: Annotated[dict[str, str], Meta(min_length=1, max_length=MOST_KEYS)]


class TensorCount(Struct, frozen=True, kw_only=True):
    """Number of changed tensors."""

    keys: int
