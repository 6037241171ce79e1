"""Texts of single tokens of real tokenizers, and files that are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.inspect.rules.token_text import TokenTable
from buffer.tokenizers import rules
from buffer.tokenizers.rules import InvalidTokenizer, TokenizerTooLarge, texts_of
from tests.tokenizer_files import END, KINDS, byte_level, content_of
from web.rules.errors import ApiError

TEXTS = ("Hello world, 你好 😀!", "x = 3\n\tprint(the fox)")


def table_of(content: bytes) -> TokenTable:
    return texts_of(content).table("tag")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_joined_pieces_equal_the_decoding_of_the_library(kind: str, text: str) -> None:
    tokenizer = KINDS[kind]()
    table = table_of(content_of(tokenizer))
    tokens = tokenizer.encode(text).ids

    pieces = table.pieces(tokens)

    # The first word of a text has no space in front; in the middle of a text it has.
    assert "".join(pieces).strip() == tokenizer.decode(tokens, skip_special_tokens=False).replace(
        " [UNK]", "[UNK]"
    )
    assert len(pieces) == len(tokens)


def test_markers_of_spaces_are_spaces() -> None:
    tokenizer = byte_level()
    tokens = tokenizer.encode("Hello world").ids

    pieces = table_of(content_of(tokenizer)).pieces(tokens)

    assert any("Ġ" in token for token in tokenizer.encode("Hello world").tokens)
    assert "".join(pieces) == "Hello world"


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
def test_a_character_of_several_tokens_is_the_text_of_its_last(kind: str) -> None:
    tokenizer = KINDS[kind]()
    tokens = tokenizer.encode("🦊").ids

    pieces = table_of(content_of(tokenizer)).pieces(tokens)

    assert len(tokens) >= 3
    assert [piece for piece in pieces if piece.strip()] == ["🦊"]
    assert pieces[-1] == "🦊"


def test_bytes_that_are_no_character_are_shown_in_hex() -> None:
    table = TokenTable([b"\xe4", b"\xbd", b"\xa0", "a"], tag="")

    assert table.pieces([0, 1, 2, 3]) == ["", "", "你", "a"]
    assert table.pieces([0, 1, 3]) == ["", "", "⟨E4⟩⟨BD⟩a"]
    assert table.pieces([1, 3, 0]) == ["⟨BD⟩", "a", "⟨E4⟩"]


def test_special_tokens_are_visible_and_not_part_of_the_text() -> None:
    tokenizer = byte_level()
    table = table_of(content_of(tokenizer))
    tokens = [*tokenizer.encode("fox").ids, tokenizer.token_to_id(END)]

    assert table.pieces(tokens)[-1] == END
    assert table.text(tokens * 2) == "fox\nfox"


def test_ids_without_a_token_are_shown() -> None:
    table = table_of(content_of(byte_level()))

    assert table.pieces([10**9, -1]) == ["⟨1000000000⟩", "⟨-1⟩"]


@given(st.lists(st.integers(-2, 310), max_size=60))
def test_any_tokens_have_one_piece_each_without_replacement_characters(tokens: list[int]) -> None:
    pieces = TABLE.pieces(tokens)

    assert len(pieces) == len(tokens)
    assert "�" not in "".join(pieces)


@given(st.text(max_size=60))
def test_any_text_is_decoded_to_itself(text: str) -> None:
    assert "".join(TABLE.pieces(TOKENIZER.encode(text, add_special_tokens=False).ids)) == text


TOKENIZER = byte_level()
TABLE = table_of(content_of(TOKENIZER))
EMPTY = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"model":' * 100_000,
        b'{"model": {}}',
        b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["q z"]}}',
        b'{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}',
        b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "decoder": {"type": "x"}}',
        json.dumps(EMPTY).encode(),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidTokenizer) as refusal:
        texts_of(content)

    assert refusal.value.field == "body"


@pytest.mark.parametrize("token_id", [rules.MOST_TOKENS, 2**32 - 1])
def test_a_token_id_over_the_limit_is_refused(token_id: int) -> None:
    described = EMPTY | {"model": {"type": "BPE", "vocab": {"a": token_id}, "merges": []}}

    with pytest.raises(TokenizerTooLarge, match=f"the token id {token_id} is not below 2097152"):
        texts_of(json.dumps(described).encode())


def test_a_file_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_FILE_BYTES", 10)

    with pytest.raises(ApiError, match="the file has 11 bytes, a tokenizer at most 10"):
        texts_of(b" " * 11)
