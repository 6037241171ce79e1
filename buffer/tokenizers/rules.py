"""The table of texts of a `tokenizer.json`.

The `tokenizers` library parses the file and decodes each token once. Tokens of byte-level
tokenizers and of byte fallbacks are kept as bytes where they are not whole characters: the library
decodes each of them alone to U+FFFD.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from tokenizers import Tokenizer

from buffer.inspect.rules.token_text import Entry, TokenTable
from web.rules.errors import InvalidData, TooLarge

MOST_FILE_BYTES: Final = 64 << 20
"""Largest `tokenizer.json`; that of Gemma 3 has 33 MB."""
MOST_TOKENS: Final = 1 << 21
"""Maximum number of token ids, including gaps; the largest public vocabularies have 262,144."""
_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class InvalidTokenizer(InvalidData):
    """The file is not a tokenizer that the `tokenizers` library reads."""

    code = "invalid_tokenizer"
    title = "Not a tokenizer"
    field = "body"


class TokenizerTooLarge(TooLarge):
    """The file or its vocabulary exceeds the limit."""

    field = "body"


class Texts(Struct, frozen=True, array_like=True):
    """Texts of a vocabulary, as stored."""

    entries: list[str | None]
    """By token id; None for an id without a text."""
    partial: dict[int, bytes]
    """Bytes of the tokens that are no whole characters."""
    special: list[int]

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(entry is not None for entry in self.entries) + len(self.partial)

    def table(self, tag: str) -> TokenTable:
        """Return the texts as a table for decoding."""
        entries: list[Entry | None] = [*self.entries]
        for place, content in self.partial.items():
            entries[place] = content
        return TokenTable(entries, special=self.special, tag=tag)


def texts_of(content: bytes) -> Texts:
    """Return the texts of all tokens of a `tokenizer.json`.

    Raises:
        TokenizerTooLarge: If the file has more than :data:`MOST_FILE_BYTES`, or a token id is
            :data:`MOST_TOKENS` or higher.
        InvalidTokenizer: If the library does not read it.
    """
    if len(content) > MOST_FILE_BYTES:
        raise TokenizerTooLarge(
            f"the file has {len(content)} bytes, a tokenizer at most {MOST_FILE_BYTES}"
        )
    try:
        described = msgspec.json.decode(content, type=_Described)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidTokenizer(f"the body is not a tokenizer.json: {error}") from error
    tokenizer = _loaded(content)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    if not ids:
        raise InvalidTokenizer("the body is a tokenizer without tokens: its vocabulary is empty")
    if (last := max(ids.values())) >= MOST_TOKENS:
        raise TokenizerTooLarge(f"the token id {last} is not below {MOST_TOKENS}")
    added = {
        place: token
        for place, token in tokenizer.get_added_tokens_decoder().items()
        if described.byte_of(token.content) is None
    }
    entries: list[str | None] = [None] * (last + 1)
    partial = {}
    own = {token: place for token, place in ids.items() if place not in added}
    for place, entry in _entries(own, tokenizer, described):
        if isinstance(entry, bytes):
            partial[place] = entry
        else:
            entries[place] = entry
    for place, token in added.items():
        entries[place] = _clean(token.content)
    return Texts(entries, partial, sorted(place for place, token in added.items() if token.special))


class _Model(Struct, frozen=True):
    byte_fallback: bool = False


class _Described(Struct, frozen=True):
    """The part of a `tokenizer.json` that determines how its tokens are bytes."""

    model: _Model
    decoder: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None

    def has(self, kind: str) -> bool:
        """Return whether the decoder or the pre-tokenizer has a part of a type."""
        parts = [*_parts(self.decoder, "decoders"), *_parts(self.pre_tokenizer, "pretokenizers")]
        return any(part.get("type") == kind for part in parts)

    def byte_of(self, token: str) -> bytes | None:
        """Return the byte that a token such as `<0xE4>` stands for, if it does."""
        found = _BYTE_TOKEN.fullmatch(token)
        if found and not (self.model.byte_fallback or self.has("ByteFallback")):
            return None
        return bytes([int(found[1], 16)]) if found else None


def _parts(part: Mapping[str, Any] | None, inner: str) -> Iterator[Mapping[str, Any]]:
    """Yield a part and the parts of a sequence."""
    if part is None:
        return
    yield part
    further = part.get(inner)
    for one in further if isinstance(further, list) else []:
        if isinstance(one, dict):
            yield one


def _loaded(content: bytes) -> Tokenizer:
    try:
        return Tokenizer.from_buffer(content)
    except BaseException as error:
        # A panic of the library derives from BaseException alone.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InvalidTokenizer(f"the body is not a tokenizer.json: {error}") from error
        raise


def _entries(
    ids: Mapping[str, int], tokenizer: Tokenizer, described: _Described
) -> Iterator[tuple[int, Entry]]:
    """Yield the text of each token of the model's own vocabulary."""
    is_byte_level = described.has("ByteLevel")
    text_of = _decoding(tokenizer, ids)
    for token, place in ids.items():
        if (byte := described.byte_of(token)) is not None:
            yield place, _joined(byte)
        elif is_byte_level and (content := _bytes_of(token)) is not None:
            yield place, _joined(content)
        else:
            yield place, _clean(text_of(token))


def _decoding(tokenizer: Tokenizer, ids: Mapping[str, int]) -> Callable[[str], str]:
    """Return the function that decodes a token as the library does in the middle of a text.

    Decoders treat the first token of a text differently: they omit its space. Each token is
    therefore decoded behind a word, whose text is then omitted.
    """
    decoder = tokenizer.decoder
    if decoder is None:
        # The library joins such tokens with spaces.
        return lambda token: f" {token}"
    word = next((token for token in ids if token.isascii() and token.isalpha()), "a")
    # Some decoders omit the space behind the last token, hence a word on both sides.
    around = decoder.decode([word, word])
    alone = decoder.decode([word])
    behind = around[len(alone) :] if around.startswith(alone) else alone

    def text_of(token: str) -> str:
        text = str(decoder.decode([word, token, word]))
        if text.startswith(alone) and text.endswith(behind) and len(text) >= len(alone + behind):
            return text[len(alone) : len(text) - len(behind)]
        return str(decoder.decode([token]))

    return text_of


def _byte_characters() -> dict[str, int]:
    """Return the characters by which byte-level tokenizers write bytes, as GPT-2 numbered them."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES: Final = _byte_characters()


def _bytes_of(token: str) -> bytes | None:
    """Return the bytes of a byte-level token; None if it has other characters."""
    try:
        return bytes([_BYTES[character] for character in token])
    except KeyError:
        return None


def _joined(content: bytes) -> Entry:
    """Return bytes as text if they are whole characters."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode()
