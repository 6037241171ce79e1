"""Views of a group's content: windows, turns, surprises, messages, digests."""

import base64
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.inspect.rules.group_digest import MOST_TEXT, digest, fitted, has_gradient
from buffer.inspect.rules.message_parts import MOST_PICTURE_BYTES
from buffer.inspect.rules.sequence_views import (
    MOST_SURPRISES,
    NoSuchSequence,
    conversation,
    shared,
    summaries,
    surprises,
    turns,
    window,
)
from buffer.inspect.rules.token_text import TokenTable
from rolldeck.groups import GroupArrays, read


def opened(**fields: Any) -> GroupArrays:
    content = {"tokens": [[1, 2, 3], [1, 2, 4, 5]], "scores": [0.0, 1.0]}
    content |= {"masks": [[-100, 2, 3], [-100, 2, 4, 5]]}
    return read(json.dumps(content | fields).encode(), "json")


rows = st.lists(st.integers(0, 3), max_size=30).map(np.array)


@given(one=rows, other=rows)
def test_the_shared_prefix_of_two_sequences_ends_where_they_differ(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> None:
    length = shared(one, other)

    assert one[:length].tolist() == other[:length].tolist()
    assert length == min(len(one), len(other)) or one[length] != other[length]


@given(own=st.lists(st.booleans(), max_size=60))
def test_turns_cover_every_token_once_and_alternate(own: list[bool]) -> None:
    turn_ranges = turns(np.array(own, dtype=bool))

    assert [is_own for start, end, is_own in turn_ranges for _ in range(start, end)] == own
    assert all(before[2] != after[2] for before, after in itertools.pairwise(turn_ranges))


@given(
    length=st.integers(0, 40),
    start=st.integers(0, 50),
    count=st.integers(1, 50),
)
def test_windows_are_parts_of_the_sequence(length: int, start: int, count: int) -> None:
    tokens = list(range(length))
    group = opened(tokens=[tokens], masks=[tokens], scores=[1.0], advantages=[[0.5] * length])

    content = window(group, 0, start=start, count=count, pieces=TokenTable("ab", tag="").pieces)

    assert content.tokens == tokens[start : start + count]
    assert content.total == length
    columns = (content.text, content.is_own, content.advantages)
    assert all(column is not None and len(column) == len(content.tokens) for column in columns)


def test_a_window_of_bytes_reads_characters_that_begin_before_it() -> None:
    tokens = list("aé✓".encode())
    group = opened(tokens=[tokens], masks=[tokens], scores=[1.0])

    of_bytes = TokenTable([bytes([byte]) for byte in range(256)], tag="")

    content = window(group, 0, start=2, count=9, pieces=of_bytes.pieces)
    before = window(group, 0, start=0, count=4, pieces=of_bytes.pieces)

    assert content.text == ["é", "", "", "✓"]
    assert before.text == ["a", "", "é", ""]


def test_tokens_of_the_environment_have_no_logprob() -> None:
    logprobs = [[1.0, -0.1, -3.0], [1.0, -0.1, -0.2, -0.3]]
    group = opened(inference_logprobs=logprobs, is_correct=[False, True])

    one, two = summaries(group, has_text=False).results
    content = window(group, 0, start=0, count=9, pieces=None)

    assert content.logprobs == [None, -0.1, -3.0]
    assert (one.surprises, two.surprises) == ([2], [])
    assert one.logprob == pytest.approx(-1.55)
    assert (one.diverges_at, two.diverges_at) == (3, 2)
    assert one.turns == [(0, 1, False), (1, 3, True)]
    assert (one.is_correct, two.is_correct, one.is_truncated) == (False, True, None)
    with pytest.raises(NoSuchSequence):
        window(group, 2, start=0, count=1, pieces=None)


def test_an_advantage_for_a_whole_sequence_is_that_of_each_token() -> None:
    group = opened(advantages=[[-1.0], [1.0]])

    assert [row.advantage for row in summaries(group, has_text=False).results] == [-1.0, 1.0]
    assert window(group, 1, start=2, count=9, pieces=None).advantages == [1.0, 1.0]


def test_only_the_least_likely_tokens_are_surprises() -> None:
    logprobs = -np.arange(3.0, 3.0 + 2 * MOST_SURPRISES)

    surprising = surprises(logprobs, np.ones(len(logprobs), dtype=bool))

    assert surprising == list(range(MOST_SURPRISES, 2 * MOST_SURPRISES))


def test_equal_sequences_point_to_the_first_of_them() -> None:
    group = opened(
        tokens=[[1, 2], [3, 4], [1, 2]], masks=[[1, 2], [3, 4], [1, 2]], scores=[0.0] * 3
    )

    assert [row.duplicate_of for row in summaries(group, has_text=False).results] == [
        *(None, None),
        0,
    ]
    assert digest(group).duplicates == 1


def test_messages_are_cut_and_one_can_be_read_completely() -> None:
    messages = [
        {"role": "user", "content": "x" * 100},
        {"role": "tool", "content": {"a": 1}, "id": 7},
    ]
    group = opened(messages=[messages, []])

    first, second = conversation(group, 0, characters=10).results
    (whole,) = conversation(group, 0, characters=1000, only=0).results

    assert ([part.text for part in first.parts], first.characters, first.extra) == (
        ["x" * 10],
        100,
        "",
    )
    assert [part.text for part in second.parts] == ['{"a":1}']
    assert (second.extra, second.extra_characters) == ('{"id":7}', 8)
    assert whole.parts[0].text == "x" * 100
    assert conversation(group, 1, characters=10).results == []
    assert conversation(group, 0, characters=10, only=9).results == []


@pytest.mark.parametrize("rows", [1, 3])
def test_messages_of_unknown_sequences_are_a_field_of_the_group(rows: int) -> None:
    """Atropos' `BaseEnv` leaves out the messages of sequences that have none."""
    talk = [{"role": "user", "content": "x"}]
    odd, even = opened(messages=[talk] * rows), opened(messages=[talk] * 2)

    assert [conversation(odd, index, characters=9).results for index in range(2)] == [[], []]
    assert [len(conversation(even, index, characters=9).results) for index in range(2)] == [1, 1]
    for group, is_known in ((odd, False), (even, True)):
        content = summaries(group, has_text=False)
        assert content.has_messages is is_known
        assert [field.name for field in content.fields] == [] if is_known else ["messages"]


def test_settings_of_single_sequences_are_shown() -> None:
    overrides = [{"temperature": 0.7}, {"set_advantage_to_zero": True}]
    plain = summaries(opened(), has_text=False).results
    stated = summaries(opened(overrides=overrides), has_text=False).results

    assert [(one.zero_advantage, one.temperature) for one in plain] == [(False, None)] * 2
    assert [(one.zero_advantage, one.temperature) for one in stated] == [(False, 0.7), (True, None)]


def test_images_are_shown_up_to_a_size_and_links_never() -> None:
    small = "data:image/png;base64," + base64.b64encode(b"\x89PNG small").decode()
    large = "data:image/png;base64," + "A" * (MOST_PICTURE_BYTES * 2)
    script = "data:image/svg+xml;base64,PHN2Zy8+"
    urls = [small, large, script, "https://example.org/a.png"]
    parts: list[Any] = [{"type": "text", "text": "look"}]
    parts += [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    bare = base64.b64encode(b"\xff\xd8\xff a photograph").decode()
    group = opened(messages=[[{"role": "user", "content": parts}], []], images=[[bare], None])

    shown = conversation(group, 0, characters=100)

    (message,) = shown.results
    text, *images, other, link = message.parts
    assert text.text == "look"
    pictures = [part.picture for part in images if part.picture]
    assert [(picture.media_type, picture.data is None) for picture in pictures] == [
        ("image/png", False),
        ("image/png", True),
    ]
    assert [(part.kind, part.name) for part in (other, link)] == [("other", "image_url")] * 2
    assert "https://example.org/a.png" in link.text
    assert [picture.media_type for picture in shown.pictures] == ["image/jpeg"]
    assert conversation(group, 1, characters=100).pictures == []


def test_a_digest_has_each_message_once_up_to_its_limit() -> None:
    prompt = {"role": "user", "content": "the same question\x00"}
    long = [{"role": "assistant", "content": f"{place} " + "y" * 9000} for place in range(9)]
    group = opened(messages=[[prompt, *long], [prompt]])

    text = digest(group)

    assert text.excerpt == "the same question\ufffd"
    assert text.text.count("question") == 1
    assert MOST_TEXT - 20 < len(text.text) <= MOST_TEXT
    assert text.is_cut
    assert not digest(opened(messages=[[prompt], [prompt]])).is_cut


@pytest.mark.parametrize(
    ("lengths", "most", "kept"),
    [
        ([], 10, []),
        ([3, 4], 100, [3, 4]),
        ([3, 4], 9, [3, 4]),
        ([3, 40], 20, [3, 15]),
        ([40, 3, 40], 43, [18, 3, 18]),
        ([1] * 10, 5, [0] * 10),
        ([90], 30, [29]),
    ],
)
def test_long_texts_share_the_limit_and_keep_both_ends(
    lengths: list[int], most: int, kept: list[int]
) -> None:
    texts = ["a" * (length - length // 2) + "b" * (length // 2) for length in lengths]

    text, is_cut = fitted(texts, most)

    assert is_cut is (kept != lengths)
    assert len(text) <= most
    if any(kept):
        found = [len(line.replace(" ", "")) for line in text.split("\n")]
        assert found[: len(kept) - 1] == kept[:-1]
    for line, length in zip(text.split("\n")[:-1], kept, strict=False):
        assert length < 3 or ("a" in line and "b" in line)


def test_a_digest_reads_tokens_where_there_are_no_messages() -> None:
    group = opened(tokens=[[0, 1], [1, 1]], masks=[[0, 1], [1, 1]])
    text_of = TokenTable("ab", tag="").text

    text = digest(group, text_of=text_of)

    assert (text.text, text.excerpt, text.answer) == ("ab\nbb", "ab", "ab")
    with_prompt = opened(tokens=[[0, 1, 1], [0, 1, 0]], masks=[[-100, 1, 1], [-100, 1, 0]])
    text = digest(with_prompt, text_of=text_of)
    assert (text.text, text.excerpt, text.answer) == ("abb\naba", "a", "bb")


@pytest.mark.parametrize(
    ("fields", "limits", "truncated"),
    [
        ({"is_truncated": [True, False]}, (3,), 1),
        ({"finish_reasons": ["length", "length"]}, (), 2),
        ({"overrides": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}, (3,), 1),
        ({"overrides": [{}, {}]}, (4, 0), 1),
        ({}, (0, 0), 0),
    ],
)
def test_truncation_is_read_from_the_group_or_else_from_its_length(
    fields: dict[str, Any], limits: tuple[int, ...], truncated: int
) -> None:
    assert digest(opened(**fields), limits=limits).truncated == truncated


ZERO = {"set_advantage_to_zero": True}
OWN, PROMPT = [-100, 2, 3], [-100, -100, -100]


def with_rows(**fields: Any) -> GroupArrays:
    content = {"tokens": [[1, 2, 3], [1, 2, 4]], "masks": [OWN, OWN], "scores": [1.0, 1.0]}
    return read(json.dumps(content | fields).encode(), "json")


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "equal scores": ({}, False),
    "different scores": ({"scores": [0.0, 1.0]}, True),
    "scores of opposite extremes": ({"scores": [1e308, -1e308]}, True),
    "every advantage set to zero": ({"scores": [0.0, 1.0], "overrides": [ZERO, ZERO]}, False),
    "one advantage set to zero": ({"scores": [0.0, 1.0], "overrides": [ZERO, {}]}, True),
    "no trained token": ({"scores": [0.0, 1.0], "masks": [PROMPT, PROMPT]}, False),
    "own advantages for sequences": ({"advantages": [[0.5], [-0.5]]}, True),
    "own advantages of 0 for sequences": (
        {"scores": [0.0, 1.0], "advantages": [[0.0], [0.0]]},
        False,
    ),
    "own advantages for tokens": ({"advantages": [[0, 0, 1], [0, 0, 0]]}, True),
    "own advantages for prompts only": ({"advantages": [[1, 0, 0], [1, 0, 0]]}, False),
    "own advantages, set to zero": (
        {"advantages": [[0.5], [-0.5]], "overrides": [ZERO, ZERO]},
        False,
    ),
    "one sequence with a score": ({"tokens": [[1, 2, 3]], "masks": [OWN], "scores": [2.0]}, True),
    "one sequence of score 0": ({"tokens": [[1, 2, 3]], "masks": [OWN], "scores": [0.0]}, False),
    "a teacher's tokens": (
        {
            "distill_token_ids": [[[1], [2], [3]], [[1], [2], [4]]],
            "distill_logprobs": [[[-1], [-1], [-1]], [[-1], [-1], [-1]]],
        },
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_group_has_a_gradient_if_a_trained_token_has_an_advantage(case: str) -> None:
    fields, expected = CASES[case]

    group = with_rows(**fields)

    assert has_gradient(group) is expected
    assert digest(group).has_gradient is expected
