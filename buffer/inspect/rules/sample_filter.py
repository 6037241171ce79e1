"""Filter and sort order of lists of samples: groups, episodes and fragments of one or more runs.

A filter is text in the language of the list of runs (:mod:`runs.search.rules`) with other
qualifiers; words without a qualifier are searched in messages.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from buffer.inspect.rules.facts import is_fact
from buffer.items.rules.states import DropReason, ItemState
from runs.search.rules import Form, InvalidFilter, Qualifier, Term, parse
from web.rules.errors import InvalidField

RUNS_AT_MOST: Final = 500
"""Number of newest runs that one list covers."""


class SampleKind(StrEnum):
    """Kind of a sample."""

    GROUP = "group"
    """A trajectory group of an outside or language run."""
    EPISODE = "episode"
    """A training episode of a fleet run."""
    FRAGMENT = "fragment"
    """A part of the env steps of a slot of a fleet run."""


class Flag(StrEnum):
    """Anomaly of a group."""

    TRUNCATED = "truncated"
    """A sequence was cut at a limit."""
    ZERO_VARIANCE = "zero_variance"
    DUPLICATE = "duplicate"
    """Two of its sequences have the same tokens."""
    STALE = "stale"
    """It was dropped as stale."""
    QUARANTINED = "quarantined"


ALL: Final = frozenset(SampleKind)
GROUPS: Final = frozenset({SampleKind.GROUP})
STORED: Final = frozenset({SampleKind.GROUP, SampleKind.FRAGMENT})
_DEFINED: Final[tuple[tuple[frozenset[SampleKind], Qualifier], ...]] = (
    (
        ALL,
        Qualifier(
            name="run", form=Form.TEXT, meaning="A run, by name.", example="run:maze-1,maze-2"
        ),
    ),
    (
        ALL,
        Qualifier(
            name="project", form=Form.TEXT, meaning="Project of the run.", example="project:maze"
        ),
    ),
    (
        ALL,
        Qualifier(
            name="env",
            form=Form.TEXT,
            meaning="Environment or lesson, whole (:) or in part (~).",
            example="env:math",
        ),
    ),
    (
        frozenset({SampleKind.GROUP, SampleKind.EPISODE}),
        Qualifier(
            name="score",
            form=Form.NUMBER,
            meaning="Mean score of a group, or return of an episode.",
            example="score:<0.2",
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="solved",
            form=Form.NUMBER,
            meaning="Share of its sequences that are correct, if the environment reports it.",
            example="solved:<1",
        ),
    ),
    (
        ALL,
        Qualifier(
            name="length",
            form=Form.NUMBER,
            meaning="Tokens of a group's longest sequence; env steps of the others.",
            example="length:>1000",
        ),
    ),
    (
        ALL,
        Qualifier(
            name="version",
            form=Form.NUMBER,
            meaning="Step of the policy version that acted.",
            example="version:>=12",
        ),
    ),
    (
        ALL,
        Qualifier(
            name="worker",
            form=Form.TEXT,
            meaning="Worker or environment that sent it, whole (:) or in part (~).",
            example="worker~w0",
        ),
    ),
    (
        ALL,
        Qualifier(
            name="arrived",
            form=Form.TIME,
            meaning="Time since it arrived, or time of its arrival.",
            example="arrived:<1h",
        ),
    ),
    (
        STORED,
        Qualifier(
            name="state",
            form=Form.CHOICE,
            meaning="State in the buffer.",
            example="state:dropped",
            choices=tuple(ItemState),
        ),
    ),
    (
        STORED,
        Qualifier(
            name="reason",
            form=Form.CHOICE,
            meaning="Why it was dropped.",
            example="reason:stale_version",
            choices=tuple(DropReason),
        ),
    ),
    (
        STORED,
        Qualifier(
            name="step",
            form=Form.NUMBER,
            meaning="Number of its batch, from 1.",
            example="step:>=100",
        ),
    ),
    (
        STORED,
        Qualifier(
            name="batch",
            form=Form.TEXT,
            meaning="Its batch, by id.",
            example="batch:01890a5d-ac96-774b-bcce-b302099a8057",
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="is",
            form=Form.CHOICE,
            meaning="An anomaly, or noted by a user.",
            example="is:truncated",
            choices=(*Flag, "noted"),
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="tag",
            form=Form.TEXT,
            meaning="One of its tags, whole (:) or in part (~).",
            example="tag:hack",
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="meta",
            form=Form.VALUE,
            meaning="Metadata of the group by key: text, number or boolean.",
            example="meta.difficulty:>3",
            has_keys=True,
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="override",
            form=Form.VALUE,
            meaning="Overrides of the group or of one of its sequences, by key.",
            example="override.level:easy",
            has_keys=True,
        ),
    ),
    (
        GROUPS,
        Qualifier(
            name="prompt",
            form=Form.TEXT,
            meaning="Digest of its prompt.",
            example="prompt:01890a5dac96774bbcceb302099a8057",
        ),
    ),
    (
        frozenset({SampleKind.FRAGMENT}),
        Qualifier(
            name="slot",
            form=Form.TEXT,
            meaning="Environment slot, whole (:) or its beginning (~).",
            example="slot~w0-3",
        ),
    ),
    (
        frozenset({SampleKind.FRAGMENT}),
        Qualifier(
            name="episode",
            form=Form.TEXT,
            meaning="Fragments that hold an episode: its slot, a slash and its number.",
            example="episode:w0-3@a/17",
        ),
    ),
)
QUALIFIERS: Final[dict[SampleKind, dict[str, Qualifier]]] = {
    kind: {each.name: each for kinds, each in _DEFINED if kind in kinds} for kind in SampleKind
}
"""Qualifiers of each kind of samples, by name."""
BARE: Final = "text"
"""Name of the terms of words without a qualifier."""
NEWEST: Final = "-arrived"
_SORTS: Final = {
    SampleKind.GROUP: (
        *("arrived", "score", "solved", "length", "version", "step", "env", "state", "run"),
    ),
    SampleKind.FRAGMENT: ("arrived", "length", "version", "step", "env", "state", "run"),
    SampleKind.EPISODE: ("score", "length", "version", "env", "run"),
}
SORTS: Final[dict[SampleKind, tuple[str, ...]]] = {
    kind: (NEWEST, *(f"{sign}{name}" for name in names for sign in ("", "-")))
    for kind, names in _SORTS.items()
}
"""Sort keys of each kind; a minus begins with the greatest value, or the newest sample.

Groups can also be sorted by their facts, such as ``-meta.difficulty``.
"""


class InvalidSearch(InvalidField):
    """A query parameter is invalid; `field` names it."""


class Position(NamedTuple):
    """Position in a list: sort value (None if by arrival), id of a row, place in the row."""

    value: float | str | None
    row: int
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFilter:
    """Filter and sort order of a list of samples; a sample must match every term."""

    kind: SampleKind = SampleKind.GROUP
    terms: tuple[Term, ...] = ()
    """Terms of the sample itself."""
    run_terms: tuple[Term, ...] = ()
    """Terms of its run: `run` and `project`."""
    words: str = ""
    """Words of messages in the syntax of ``websearch_to_tsquery``."""
    sort: str = NEWEST

    @property
    def key(self) -> str:
        """The sort key without its sign."""
        return self.sort.removeprefix("-")

    @property
    def fact(self) -> str | None:
        """The fact that the list is sorted by; None for another sort key."""
        return self.key if is_fact(self.key) else None

    @property
    def is_descending(self) -> bool:
        """Whether the greatest values are first."""
        return self.sort.startswith("-")

    def only(self, name: str, *, or_part: bool = False) -> Term | None:
        """Return the first term of a name that requires one of its values, if there is one.

        With `or_part`, also one that requires a part of a value.
        """
        operators = (":", "=", "~") if or_part else (":", "=")
        return next(
            (
                term
                for term in self.terms
                if term.name == name and term.operator in operators and not term.negated
            ),
            None,
        )


def parse_samples(
    text: str = "", *, kind: SampleKind = SampleKind.GROUP, sort: str = ""
) -> SampleFilter:
    """Return the filter of a list.

    Args:
        text: The filter, such as ``env:math score:<0.2 "free text"``.
        kind: Kind of the samples, which determines the qualifiers.
        sort: One of :data:`SORTS`; newest first if empty.

    Raises:
        InvalidFilter: If a word is invalid; the error has its position.
        InvalidSearch: If the kind has no such sort key.
    """
    is_known = sort in ("", *SORTS[kind])
    if not is_known and not (kind is SampleKind.GROUP and is_fact(sort.removeprefix("-"))):
        facts = ", meta.KEY, override.KEY" if kind is SampleKind.GROUP else ""
        raise InvalidSearch("sort", f"{sort[:40]!r} is not one of {', '.join(SORTS[kind])}{facts}")
    terms, run_terms, words = [], [], []
    for term in parse(text, qualifiers=QUALIFIERS[kind], bare=BARE):
        if term.name == BARE:
            words.append(_word(term, kind))
        elif term.name in ("run", "project"):
            run_terms.append(term)
        else:
            terms.append(_checked(term))
    return SampleFilter(
        kind=kind,
        terms=tuple(terms),
        run_terms=tuple(run_terms),
        words=" ".join(words),
        sort=sort or NEWEST,
    )


def _word(term: Term, kind: SampleKind) -> str:
    """Return free text as a phrase of a search, in which a minus excludes."""
    (text,) = term.values
    if kind is not SampleKind.GROUP:
        raise InvalidFilter(
            f"{kind}s have no text to search for {str(text)!r}; "
            f"known qualifiers: {', '.join(QUALIFIERS[kind])}",
            start=term.start,
            end=term.end,
        )
    return f'{"-" if term.negated else ""}"{text}"'


def _checked(term: Term) -> Term:
    if term.name in ("batch", "prompt"):
        for value in term.values:
            try:
                UUID(str(value))
            except ValueError:
                raise InvalidFilter(
                    f"{str(value)[:40]!r} is not the id of a {term.name}",
                    start=term.start,
                    end=term.end,
                ) from None
    return term
