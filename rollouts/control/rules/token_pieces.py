"""Turn tokens of our own tokenizers into text, one by one."""

import codecs
from collections.abc import Callable, Sequence
from typing import Final

Pieces = Callable[[Sequence[int]], list[str]]
BYTES_END: Final = 256
"""Ends an answer in bytes; it has no text."""


def byte_pieces(tokens: Sequence[int]) -> list[str]:
    """Return the text of each of some bytes of UTF-8.

    A character of several bytes is the text of its last one; what is no UTF-8 becomes U+FFFD.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces = [decoder.decode(bytes((token,))) if 0 <= token < BYTES_END else "" for token in tokens]
    if pieces:
        pieces[-1] += decoder.decode(b"", final=True)
    return pieces


def character_pieces(alphabet: str) -> Pieces:
    """Return what makes text of places in an alphabet; the end, behind the last, has none."""

    def pieces(tokens: Sequence[int]) -> list[str]:
        return [alphabet[token] if 0 <= token < len(alphabet) else "" for token in tokens]

    return pieces
