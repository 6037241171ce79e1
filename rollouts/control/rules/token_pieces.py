"""Text of single tokens of the built-in tokenizers."""

import codecs
from collections.abc import Callable, Sequence
from typing import Final

Pieces = Callable[[Sequence[int]], list[str]]
BYTES_END: Final = 256
"""End-of-answer token of the byte tokenizer; it has no text."""


def byte_pieces(tokens: Sequence[int]) -> list[str]:
    """Return the text of each token of a UTF-8 byte sequence.

    A multi-byte character is the text of its last byte; invalid UTF-8 becomes U+FFFD.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces = [decoder.decode(bytes((token,))) if 0 <= token < BYTES_END else "" for token in tokens]
    if pieces:
        pieces[-1] += decoder.decode(b"", final=True)
    return pieces


def character_pieces(alphabet: str) -> Pieces:
    """Return a function that maps positions in an alphabet to text; the end token has none."""

    def pieces(tokens: Sequence[int]) -> list[str]:
        return [alphabet[token] if 0 <= token < len(alphabet) else "" for token in tokens]

    return pieces
