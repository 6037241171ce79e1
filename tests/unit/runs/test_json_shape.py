import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.rules import json_shape

# Text that resembles structure, and escapes that resemble the ends of strings.
words = st.text(alphabet='[]{},:"\\\\ a\u00fc\n', max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)


def depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0)


def count(value: Any) -> int:
    """Return the number of values; an empty container may count as two."""
    if not isinstance(value, dict | list):
        return 1
    inner = list(value.values() if isinstance(value, dict) else value)
    return 1 + (sum(map(count, inner)) if inner else 1)


@given(values, st.integers(0, 8))
def test_the_depth_is_that_of_the_decoded_value(value: Any, most: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()

    assert json_shape.too_deep(text, max_depth=most) == (depth(value) > most)


@given(values, st.integers(1, 30))
def test_values_are_counted_as_a_decoder_would_build_them(value: Any, most: int) -> None:
    text = json.dumps(value, separators=(",", ":")).encode()

    # Short texts hold few values in any case: a value takes two bytes with its comma.
    too_many = count(value) > most and len(text) // 2 >= most
    assert json_shape.too_many_values(text, max_values=most) == too_many


@given(st.lists(values, max_size=12), st.integers(1, 12))
def test_only_the_outermost_entries_are_items(items: list[Any], most: int) -> None:
    text = json.dumps(items).encode()

    assert json_shape.too_many_items(text, max_items=most) == (len(items) > most)


@pytest.mark.parametrize("lead", [0, 1, 2, 3])
def test_a_string_across_blocks_stays_a_string(lead: int) -> None:
    block = 1 << 18
    inside = "[" * (block // 2)
    text = b" " * lead + json.dumps([inside, inside, [[]]]).encode()

    assert not json_shape.too_deep(text, max_depth=3)
    assert json_shape.too_deep(text, max_depth=2)


def test_unclosed_nesting_counts_as_depth() -> None:
    assert json_shape.too_deep(b"[" * 1_000_000, max_depth=32)
    assert not json_shape.too_deep(b"[]" * 1_000_000, max_depth=32)
