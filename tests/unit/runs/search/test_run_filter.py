"""Filters of runs and their error messages."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.search.rules import QUALIFIERS, InvalidFilter, Term, parse


def one(text: str) -> Term:
    (term,) = parse(text)
    return term


def test_each_word_of_a_filter_is_one_term() -> None:
    terms = parse("state:running kind:language step>100 -tag:ablation name~cart created<7d lunar")

    assert [(term.name, term.operator, term.values, term.negated) for term in terms] == [
        ("state", ":", ("running",), False),
        ("kind", ":", ("language",), False),
        ("step", ">", (100.0,), False),
        ("tag", ":", ("ablation",), True),
        ("name", "~", ("cart",), False),
        ("created", "<", (timedelta(days=7),), False),
        ("name", "~", ("lunar",), False),
    ]


def test_a_comma_separates_alternatives_and_quotes_join_words() -> None:
    assert one("state:Running,paused").values == ("running", "paused")
    assert one('tag:"two words","a,b"').values == ("two words", "a,b")


@pytest.mark.parametrize(
    ("text", "number"), [("step>=2.5k", 2500.0), ("step:1M", 1e6), ("policy:-1", -1.0)]
)
def test_numbers_may_have_suffixes(text: str, number: float) -> None:
    assert one(text).values == (number,)


def test_times_are_ages_or_dates() -> None:
    assert one("created>36h").values == (timedelta(hours=36),)
    assert one("changed<2026-03-01").values == (datetime(2026, 3, 1, tzinfo=UTC),)


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("state:runing", "runing"),
        ("name~a stat:running", "stat"),
        ("step~4", "~"),
        ("step>many", "many"),
        ("step>", "step>"),
        ("created<yesterday", "yesterday"),
        ("created<2026-13-01", "2026-13-01"),
        ("state:running,,x", ","),
        ('tag:"open', 'tag:"open'),
        ('a ""', '""'),
        ("a\x00b", "\x00"),
    ],
)
def test_invalid_terms_have_a_position(text: str, culprit: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse(text)

    assert text[caught.value.start : caught.value.end] == culprit
    assert f"at character {caught.value.start + 1}:" in str(caught.value)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidFilter, match="known: state, kind"):
        parse("colour:red")


def test_the_length_of_a_filter_is_limited() -> None:
    with pytest.raises(InvalidFilter, match="1001 characters, at most 1000 allowed"):
        parse("x" * 1001)
    with pytest.raises(InvalidFilter, match="41 words, at most 40 allowed"):
        parse("x " * 41)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused_with_a_position(text: str) -> None:
    try:
        terms = parse(text)
    except InvalidFilter as error:
        refused: InvalidFilter | None = error
    else:
        refused = None
        assert all(term.name in QUALIFIERS and term.values for term in terms)
        assert bool(terms) == bool(text.split())
    assert refused is None or 0 <= refused.start <= refused.end <= len(text)


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(["name", "tag", "owner", "env"]),
            st.sampled_from([":", "=", "~"]),
            st.lists(
                st.text(st.characters(exclude_characters='"\x00', exclude_categories=["Cs"]))
                .map(str.strip)
                .filter(bool),
                min_size=1,
                max_size=3,
            ),
        ),
        max_size=8,
    )
)
def test_a_formatted_filter_is_parsed_unchanged(
    terms: list[tuple[bool, str, str, list[str]]],
) -> None:
    text = " ".join(
        "-" * negated + name + operator + ",".join(f'"{value}"' for value in values)
        for negated, name, operator, values in terms
    )
    if len(text) > 1000:
        return

    assert [(t.negated, t.name, t.operator, list(t.values)) for t in parse(text)] == terms


@given(st.sampled_from(sorted(QUALIFIERS)))
def test_every_example_is_parsed(name: str) -> None:
    assert one(QUALIFIERS[name].example).name == name
