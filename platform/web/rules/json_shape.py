"""Sizes and shapes of JSON values.

A decoded value takes up to thirty times the bytes of its text: three bytes ``[],`` become a list of
56 bytes and a pointer to it. The checks below need one block of scratch memory.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

# Detection of JSON values that PostgreSQL cannot store.


class NotStorable(ValueError):
    """A value cannot be stored; `field` is its path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


MAX_DEPTH = 32


def check(value: object, *, path: str = "", depth: int = 0) -> None:
    """Check that PostgreSQL can store decoded JSON and return it unchanged.

    Raises:
        NotStorable: At the first non-finite number, text with a NUL character or a lone surrogate,
            or nesting below :data:`MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        raise NotStorable(path, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotStorable(path, "must be a finite number")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, path)
            check(item, path=f"{path}.{key}" if path else key, depth=depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check(item, path=f"{path}[{index}]", depth=depth + 1)


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise NotStorable(path, "must not contain the NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotStorable(path, "must not contain lone surrogates")


# Limits on the shape of JSON, checked before decoding to bound memory.

_BLOCK_BYTES: Final = 1 << 18
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
_BEGINS: Final = np.zeros(256, bool)
_BEGINS[[ord(","), ord("["), ord("{")]] = True


def too_deep(text: bytes, *, max_depth: int) -> bool:
    """Return whether JSON is nested deeper than `max_depth` containers.

    Invalid JSON is checked up to its first error, which is all that a decoder builds.
    """
    if text.count(b"[") + text.count(b"{") <= max_depth:
        return False
    depth = 0
    for block in _outside_strings(text):
        levels = np.cumsum(_STEPS[block], dtype=np.int32)
        if depth + int(levels.max(initial=0)) > max_depth:
            return True
        depth += int(levels[-1]) if levels.size else 0
    return False


def too_many_values(text: bytes, *, max_values: int) -> bool:
    """Return whether JSON may contain more than `max_values` values, keys not counted.

    Every value but the first follows a comma or opens a container. Strings are parsed only if their
    content can change the result.
    """
    if len(text) // 2 < max_values or sum(map(text.count, (b",", b"[", b"{"))) < max_values:
        return False
    begun = sum(int(np.count_nonzero(_BEGINS[block])) for block in _outside_strings(text))
    return begun >= max_values


def too_many_items(text: bytes, *, max_items: int) -> bool:
    """Return whether the outermost array or object has more than `max_items` entries."""
    if text.count(b",") < max_items:
        return False
    depth = items = 0
    for block in _outside_strings(text):
        levels = np.cumsum(_STEPS[block], dtype=np.int32) + depth
        items += int(np.count_nonzero((block == _COMMA) & (levels == 1)))
        if items >= max_items:
            return True
        depth = int(levels[-1]) if levels.size else depth
    return False


def _outside_strings(text: bytes) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes between strings, block by block."""
    if b"\\" in text:
        # Left to right: after removing escaped backslashes, a backslash before a quote escapes it.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    whole = np.frombuffer(text, np.uint8)
    inside = False
    for start in range(0, len(whole), _BLOCK_BYTES):
        block = whole[start : start + _BLOCK_BYTES]
        in_string = np.logical_xor.accumulate(block == _QUOTE) ^ inside
        inside = bool(in_string[-1])
        yield block[~in_string]
