"""Filter and sort order of group lists; labels and notes of groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from buffer.items.rules.states import DropReason, ItemState
from web.rules.amounts import finite_number
from web.rules.errors import InvalidField

LABELS: Final = range(1, 10)
"""Labels are digits, so that each has its own keyboard shortcut."""
LONGEST_NOTE: Final = 2000
LONGEST_LABEL_NAME: Final = 40
MOST_AT_ONCE: Final = 200
"""Maximum number of groups that one request marks or discards."""


class InvalidMark(InvalidField):
    """A mark is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Label and note of a group."""

    label: int | None = None
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it is blank, so that no row is needed."""
        return self == Mark()

    def changed(self, changes: dict[str, Any]) -> "Mark":
        return replace(self, **changes)


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Validate and normalise changes of a mark.

    Raises:
        InvalidMark: If a label is not from 1 to 9, or a note is too long.
    """
    label, note = changes.get("label"), changes.get("note")
    if label is not None and label not in LABELS:
        raise InvalidMark("label", f"{label} is not a label from 1 to 9")
    if note is None:
        return changes
    kept = note.strip()
    if len(kept) > LONGEST_NOTE or "\x00" in kept:
        raise InvalidMark("note", f"must have at most {LONGEST_NOTE} characters, without NUL")
    return changes | {"note": kept}


def described(changes: dict[str, Any]) -> str:
    """Summarise changes of a mark: ``label 3, a note``."""
    words = []
    if "label" in changes:
        words.append("no label" if changes["label"] is None else f"label {changes['label']}")
    if "note" in changes:
        words.append("a note" if changes["note"] else "no note")
    return ", ".join(words)


def label_name(name: str) -> str:
    """Return a validated and normalised label name; may be empty.

    Raises:
        InvalidMark: If the name is too long or not printable.
    """
    kept = " ".join(name.split())
    if len(kept) > LONGEST_LABEL_NAME or not kept.isprintable():
        raise InvalidMark("name", f"must be one line of at most {LONGEST_LABEL_NAME} characters")
    return kept


MOST_VALUES: Final = 64
"""Maximum number of values of one facet."""
LONGEST_TEXT: Final = 200


class Sort(StrEnum):
    """Sort order of groups."""

    NEWEST = "newest"
    SCORE = "-score"
    """Highest mean score first."""
    SCORE_ASCENDING = "score"
    LENGTH = "-length"
    """Longest sequence first."""
    LENGTH_ASCENDING = "length"


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


class Marked(StrEnum):
    """Filter on marks other than labels."""

    NOTED = "noted"


class InvalidFilter(InvalidField):
    """A query parameter is invalid; `field` names it."""


class Span(NamedTuple):
    """Numbers from `least` to `most`, inclusive; None is no bound."""

    least: float | None = None
    most: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has no bounds."""
        return self.least is None and self.most is None


class ListPosition(NamedTuple):
    """Position in a list: sort value (None if sorted by id only) and id of a group."""

    value: float | None
    group_id: int


ANY_NUMBER: Final = Span()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """Filter of groups; a group must match every field, and any of the values of a field."""

    env_ids: tuple[int, ...] = ()
    """-1 selects groups without an environment."""
    lessons: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """A group must match all of them."""
    versions: Span = ANY_NUMBER
    steps: Span = ANY_NUMBER
    """Ordinal of the group's batch."""
    scores: Span = ANY_NUMBER
    """Mean score of the group."""
    lengths: Span = ANY_NUMBER
    """Tokens of the longest sequence."""
    labels: tuple[int, ...] = ()
    is_noted: bool = False
    """A group must have a note."""
    batch: UUID | None = None
    prompt: UUID | None = None
    """Digest of a prompt."""
    text: str = ""
    sort: Sort = Sort.NEWEST


def parse_filter(query: Mapping[str, Sequence[str]]) -> GroupFilter:
    """Return the filter of a query string; only facets may be repeated.

    Raises:
        InvalidFilter: If a parameter is invalid; names the first one.
    """
    text = _one(query, "q").strip()
    if len(text) > LONGEST_TEXT or "\x00" in text:
        raise InvalidFilter("q", f"must have at most {LONGEST_TEXT} characters, without NUL")
    return GroupFilter(
        env_ids=tuple(_env_id(value) for value in _many(query, "env")),
        lessons=_many(query, "lesson"),
        workers=_many(query, "worker"),
        states=_known(query, "state", ItemState),
        reasons=_known(query, "reason", DropReason),
        flags=_known(query, "flag", Flag),
        versions=_span(query, "version"),
        steps=_span(query, "step"),
        scores=_span(query, "score"),
        lengths=_span(query, "length"),
        labels=tuple(_label(value) for value in _many(query, "label")),
        is_noted=bool(_known(query, "mark", Marked)),
        batch=_uuid(_one(query, "batch"), "batch", "is not a batch id"),
        prompt=_uuid(_one(query, "prompt"), "prompt", "is not a prompt digest"),
        text=text,
        sort=_sort(_one(query, "sort")),
    )


def _one(query: Mapping[str, Sequence[str]], name: str) -> str:
    values = query.get(name, [])
    if len(values) > 1:
        raise InvalidFilter(name, "must not be repeated")
    return values[0] if values else ""


def _many(query: Mapping[str, Sequence[str]], name: str) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(query.get(name, [])))
    if len(values) > MOST_VALUES:
        raise InvalidFilter(name, f"has {len(values)} values, at most {MOST_VALUES} allowed")
    if any("\x00" in value or len(value) > LONGEST_TEXT for value in values):
        raise InvalidFilter(name, f"must have at most {LONGEST_TEXT} characters, without NUL")
    return values


def _known(query: Mapping[str, Sequence[str]], name: str, words: type[StrEnum]) -> tuple[str, ...]:
    values = _many(query, name)
    for value in values:
        if value not in {str(word) for word in words}:
            raise InvalidFilter(name, f"{value!r} is not one of {', '.join(words)}")
    return values


def _env_id(text: str) -> int:
    if text == "none":
        return -1
    if not text.isascii() or not text.isdigit() or int(text[:20]) >= 1 << 31:
        raise InvalidFilter("env", f"{text!r} is neither an env_id nor 'none'")
    return int(text)


def _label(text: str) -> int:
    if text not in {str(label) for label in LABELS}:
        raise InvalidFilter("label", f"{text[:40]!r} is not a label from 1 to 9")
    return int(text)


def _span(query: Mapping[str, Sequence[str]], name: str) -> Span:
    span = Span(*(_number(query, f"{name}_{end}") for end in ("min", "max")))
    if span.least is not None and span.most is not None and span.least > span.most:
        raise InvalidFilter(f"{name}_min", f"{span.least:g} is above {name}_max {span.most:g}")
    return span


def _number(query: Mapping[str, Sequence[str]], name: str) -> float | None:
    text = _one(query, name)
    if not text:
        return None
    value = finite_number(text)
    if value is None:
        raise InvalidFilter(name, f"{text[:40]!r} is not a finite number")
    return value


def _uuid(text: str, field: str, problem: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise InvalidFilter(field, f"{text[:40]!r} {problem}") from None


def _sort(text: str) -> Sort:
    try:
        return Sort(text or Sort.NEWEST)
    except ValueError:
        raise InvalidFilter("sort", f"{text[:40]!r} is not one of {', '.join(Sort)}") from None
