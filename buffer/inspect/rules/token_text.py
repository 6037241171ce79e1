"""Texts of single tokens, from a table of a tokenizer's vocabulary."""

import codecs
from collections.abc import Callable, Sequence
from typing import Final, cast

Pieces = Callable[[Sequence[int]], list[str]]
"""Returns the text of each token in a sequence; empty if a later token completes the character."""

Entry = str | bytes
"""Text of a token, or bytes that are whole characters only together with those of other tokens."""

_AS_HEX: Final = "rolldeck-hex"


def _in_hex(error: UnicodeError) -> tuple[str, int]:
    """Show invalid bytes as `⟨E4⟩`."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    invalid = error.object[error.start : error.end]
    return "".join(f"⟨{byte:02X}⟩" for byte in invalid), error.end


codecs.register_error(_AS_HEX, _in_hex)


class TokenTable:
    """The texts of all tokens of a tokenizer."""

    def __init__(
        self, entries: Sequence[Entry | None], *, special: Sequence[int] = (), tag: str
    ) -> None:
        """Take over the entries.

        Args:
            entries: The text of each token by its id; None for an id without a token.
            special: Ids of tokens that mark the structure of a conversation.
            tag: Identifies the entries in cache keys.
        """
        self.tag = tag
        self._entries = dict(enumerate(entries))
        self._special = frozenset(special)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token.

        A character of several tokens is the text of its last one. Invalid UTF-8 is written as
        `⟨E4⟩`, an id without a token as `⟨id⟩`.
        """
        pieces: list[Entry | None] = [*map(self._entries.get, tokens)]
        others = [place for place, entry in enumerate(pieces) if type(entry) is not str]
        decoder = codecs.getincrementaldecoder("utf-8")(errors=_AS_HEX)
        place = 0
        for start in others:
            place = max(place, start)
            # Further tokens may complete a character.
            while place == start or (decoder.getstate()[0] and place < len(pieces)):
                entry = pieces[place]
                if entry is None:
                    entry = f"⟨{tokens[place]}⟩"
                content = entry if isinstance(entry, bytes) else entry.encode()
                pieces[place] = decoder.decode(content)
                place += 1
        texts = cast("list[str]", pieces)
        if texts:
            texts[-1] += decoder.decode(b"", final=True)
        return texts

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with a line end in place of special ones."""
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token in self._special:
                parts.append([])
            else:
                parts[-1].append(token)
        return "\n".join("".join(self.pieces(part)) for part in parts if part)
