"""Output of any process is sanitized and bounded before display."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.process.logs import LINE_CHARACTERS, clean, last_lines
from web.rules.texts import visible


@given(st.binary(max_size=3000) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_become_text_without_control_characters(raw: bytes) -> None:
    for line in last_lines(raw, lines=1000, is_whole=True):
        assert not [
            character
            for character in line
            if unicodedata.category(character) == "Cc" and character != "\t"
        ]
        assert len(line) <= LINE_CHARACTERS + 60
        assert line.encode("utf-8").decode("utf-8") == line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Htext", "text"),
        ("\x1b(Bplain\x1bM", "plain"),
        ("10 %\r50 %\r100 %", "100 %"),
        ("a windows line\r", "a windows line"),
        ("nul\x00bell\x07", "nul\ufffdbell\ufffd"),
        ("c1 \x9b31mred", "c1 red"),
        ("an unfinished \x1b[31", "an unfinished "),
        ("tabs\tstay", "tabs\tstay"),
        ("ümlaut 漢字 🎲", "ümlaut 漢字 🎲"),
    ],
)
def test_escape_sequences_are_left_out(written: str, shown: str) -> None:
    assert clean(written) == shown


def test_a_long_line_has_its_omitted_length() -> None:
    [line] = last_lines(b"x" * 10_000_000, lines=5, is_whole=True)

    assert line.startswith("x" * 100)
    assert line.endswith(f" … {10_000_000 - LINE_CHARACTERS} characters left out")


def test_bytes_that_are_no_utf8_are_shown_as_replacement_characters() -> None:
    assert last_lines(b"caf\xe9\nok\n", lines=5, is_whole=True) == ["caf\ufffd", "ok"]


def test_the_last_complete_lines_are_kept() -> None:
    raw = b"cut in half\none\ntwo\nthree\n"

    assert last_lines(raw, lines=2, is_whole=False) == ["two", "three"]
    assert last_lines(raw, lines=10, is_whole=False) == ["one", "two", "three"]
    assert last_lines(b"only a part", lines=10, is_whole=False) == ["only a part"]
    assert last_lines(b"", lines=10, is_whole=True) == []


def test_deceptive_characters_are_named_in_place() -> None:
    assert visible("a\u202eb\x1b[31m\ufeff") == "a⟨U+202E⟩b⟨U+001B⟩[31m⟨U+FEFF⟩"
    assert visible("two\tcolumns\nand a line: é 語") == "two\tcolumns\nand a line: é 語"


@given(st.text())
def test_visible_text_has_no_control_and_no_direction_characters(text: str) -> None:
    shown = visible(text)

    assert not [
        character
        for character in shown
        if unicodedata.category(character) == "Cc" and character not in "\t\n"
    ]
    assert not [
        character for character in shown if unicodedata.bidirectional(character) in DIRECTIONS
    ]


DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
