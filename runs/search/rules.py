"""The language of filters: its parser and the position of errors; the qualifiers of runs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from runs.lifecycle.rules import RunStatus
from web.rules.errors import Invalid

LONGEST_FILTER: Final = 1000
MOST_TERMS: Final = 40
LARGEST_NUMBER: Final = 1 << 62
LONGEST_AGE: Final = timedelta(days=36_525)

# A piece of a word is quoted text or anything without spaces.
_WORD: Final = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')
# A colon may precede a comparison: ``step:>100``. A name may have a key: ``meta.level:easy``.
_QUALIFIED: Final = re.compile(
    r'(-?)([a-z]+)(?:\.([^\s",:=~<>]*))?(:?(?:>=|<=|[<>])|[:=~])(.*)', re.DOTALL | re.IGNORECASE
)
# Outside quotes.
_COMMA: Final = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
_NUMBER: Final = re.compile(r"(-?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?)([kM]?)")
_AGE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?Z?)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIMES: Final = {"": 1, "k": 1_000, "M": 1_000_000}


class Form(StrEnum):
    """Value type of a qualifier; it determines the operators."""

    CHOICE = "choice"
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    VALUE = "value"
    """Text, number or boolean; comparisons are of numbers."""


OPERATORS: Final[dict[Form, tuple[str, ...]]] = {
    Form.CHOICE: (":", "="),
    Form.TEXT: (":", "=", "~"),
    Form.NUMBER: (":", "=", ">", ">=", "<", "<="),
    Form.TIME: (">", ">=", "<", "<="),
    Form.VALUE: (":", "=", "~", ">", ">=", "<", "<="),
}
_COMPARISONS: Final = (">", ">=", "<", "<=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualifier:
    """One qualifier of the filter language.

    Attributes:
        name: The word before the operator.
        form: Value type.
        meaning: One-line description.
        choices: Allowed values; empty unless the form is a choice.
        example: A valid word.
        has_keys: Whether the name continues with a dot and a key, as in ``meta.level:easy``.
    """

    name: str
    form: Form
    meaning: str
    example: str
    choices: tuple[str, ...] = ()
    has_keys: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the allowed operators."""
        return OPERATORS[self.form]


QUALIFIERS: Final[dict[str, Qualifier]] = {
    each.name: each
    for each in (
        Qualifier(
            name="state",
            form=Form.CHOICE,
            meaning="Status of the run.",
            example="state:running,paused",
            choices=tuple(RunStatus),
        ),
        Qualifier(
            name="kind",
            form=Form.CHOICE,
            meaning="Kind of the run: the producer of its data.",
            example="kind:language",
            choices=("fleet", "language", "outside"),
        ),
        Qualifier(
            name="is",
            form=Form.CHOICE,
            meaning="Active, ended, archived, or with an unbalanced ledger.",
            example="is:active",
            choices=("active", "over", "archived", "unbalanced"),
        ),
        Qualifier(
            name="env",
            form=Form.TEXT,
            meaning="An environment or a lesson, whole (:) or in part (~).",
            example="env:CartPole-v1",
        ),
        Qualifier(
            name="project",
            form=Form.TEXT,
            meaning="Its project, whole (:) or in part (~).",
            example="project:cartpole",
        ),
        Qualifier(name="tag", form=Form.TEXT, meaning="One of its tags.", example="tag:ablation"),
        Qualifier(name="owner", form=Form.TEXT, meaning="Who created it.", example="owner:ada"),
        Qualifier(
            name="name", form=Form.TEXT, meaning="Its name, whole or in part.", example="name~cart"
        ),
        Qualifier(
            name="preset",
            form=Form.TEXT,
            meaning="Preset that the run was created from.",
            example="preset:cartpole",
        ),
        Qualifier(
            name="step", form=Form.NUMBER, meaning="Batches served so far.", example="step>100"
        ),
        Qualifier(
            name="planned", form=Form.NUMBER, meaning="Planned train steps.", example="planned>=1k"
        ),
        Qualifier(
            name="policy",
            form=Form.NUMBER,
            meaning="Step of the newest published weights.",
            example="policy>0",
        ),
        Qualifier(
            name="epoch",
            form=Form.NUMBER,
            meaning="Trainer sessions opened so far.",
            example="epoch>1",
        ),
        Qualifier(
            name="workers",
            form=Form.NUMBER,
            meaning="Requested rollout workers.",
            example="workers>=8",
        ),
        Qualifier(
            name="batch",
            form=Form.NUMBER,
            meaning="Sequences or fragments in a batch.",
            example="batch:256",
        ),
        Qualifier(
            name="created",
            form=Form.TIME,
            meaning="Age of the run, or time of its creation.",
            example="created<7d",
        ),
        Qualifier(
            name="changed",
            form=Form.TIME,
            meaning="Age of the current status, or time of its last change.",
            example="changed>36h",
        ),
    )
}


class InvalidFilter(Invalid):
    """A word of a filter is invalid.

    Attributes:
        start: First character of the invalid part, from 0.
        end: End of the invalid part, exclusive.
        message: Description of the error.
    """

    field = "q"

    def __init__(self, message: str, *, start: int, end: int) -> None:
        super().__init__(f"at character {start + 1}: {message}")
        self.message = f"at character {start + 1}: {message}"
        self.start = start
        self.end = end


Value = str | float | bool | timedelta | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One condition that a row must meet, or must not.

    `values` are alternatives: choices in lower case, text as written, numbers, booleans, ages, or
    times in UTC. The name of a qualifier with keys includes the key.
    """

    name: str
    operator: str
    values: tuple[Value, ...]
    negated: bool = False
    start: int = field(default=0, compare=False)
    """First character of the word, from 0."""
    end: int = field(default=0, compare=False)


def parse(
    text: str, *, qualifiers: Mapping[str, Qualifier] = QUALIFIERS, bare: str = "name"
) -> list[Term]:
    """Return the terms of a filter, in order; an empty filter has none.

    Args:
        text: The filter.
        qualifiers: Known qualifiers by name.
        bare: Name of the terms of words without a qualifier, which match in part.

    Raises:
        InvalidFilter: If a word is invalid; the error has its position.
    """
    if len(text) > LONGEST_FILTER:
        raise InvalidFilter(
            f"{len(text)} characters, at most {LONGEST_FILTER} allowed",
            start=LONGEST_FILTER,
            end=len(text),
        )
    if "\x00" in text:
        at = text.index("\x00")
        raise InvalidFilter("a filter must not contain NUL characters", start=at, end=at + 1)
    words = list(_WORD.finditer(text))
    if len(words) > MOST_TERMS:
        far = words[MOST_TERMS].start()
        raise InvalidFilter(
            f"{len(words)} words, at most {MOST_TERMS} allowed", start=far, end=len(text)
        )
    return [_term(found.group(), found.start(), qualifiers, bare) for found in words]


def _term(word: str, start: int, qualifiers: Mapping[str, Qualifier], bare: str) -> Term:
    end = start + len(word)
    if word.count('"') % 2:
        raise InvalidFilter("a quote is not closed", start=start, end=end)
    found = _QUALIFIED.fullmatch(word)
    qualifier = None if found is None else qualifiers.get(found[2].lower())
    has_key = found is not None and found[3] is not None
    if found is None or (has_key and (qualifier is None or not qualifier.has_keys)):
        negated = word.startswith("-") and len(word) > 1
        text = _unquoted(word[1:] if negated else word)
        if not text:
            raise InvalidFilter("the quotes are empty", start=start, end=end)
        return Term(name=bare, operator="~", values=(text,), negated=negated, start=start, end=end)
    minus, name, key, written, raw = found.groups()
    at = start + len(minus)
    if qualifier is None:
        known = ", ".join(qualifiers)
        raise InvalidFilter(
            f"unknown qualifier {name!r}; known: {known}", start=at, end=at + len(name)
        )
    if qualifier.has_keys:
        if not key:
            raise InvalidFilter(
                f"{qualifier.name} needs a key, as in {qualifier.example}", start=at, end=end
            )
        name = f"{name}.{key}"
    operator = written.lstrip(":") or ":"
    if operator not in qualifier.operators:
        raise InvalidFilter(
            f"{qualifier.name} takes {' '.join(qualifier.operators)}, not {operator}",
            start=at + len(name),
            end=at + len(name) + len(written),
        )
    if not raw:
        raise InvalidFilter(
            f"{qualifier.name} needs a value, as in {qualifier.example}", start=at, end=end
        )
    values = tuple(_values(qualifier, operator, raw, end - len(raw)))
    return Term(
        name=f"{qualifier.name}.{key}" if key else qualifier.name,
        operator=operator,
        values=values,
        negated=bool(minus),
        start=start,
        end=end,
    )


def _values(qualifier: Qualifier, operator: str, raw: str, start: int) -> Iterator[Value]:
    at = start
    for piece in _COMMA.split(raw):
        text = _unquoted(piece)
        if not text:
            raise InvalidFilter("a value is empty", start=at, end=max(at + len(piece), at + 1))
        if qualifier.form is Form.VALUE and operator not in _COMPARISONS:
            yield from _readings(text, operator)
        else:
            yield _value(qualifier, text, at, at + len(piece))
        at += len(piece) + 1


def _readings(text: str, operator: str) -> Iterator[Value]:
    """Yield a text and, if a whole value is meant, the number or boolean that it may be."""
    yield text
    if operator != "~" and (number := _number(text)) is not None:
        yield number
    if operator != "~" and text.lower() in ("true", "false"):
        yield text.lower() == "true"


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _value(qualifier: Qualifier, text: str, start: int, end: int) -> Value:
    if qualifier.form is Form.TEXT:
        return text
    if qualifier.form is Form.CHOICE:
        if text.lower() not in qualifier.choices:
            known = ", ".join(qualifier.choices)
            message = f"{qualifier.name} must be one of {known}"
            raise InvalidFilter(message, start=start, end=end)
        return text.lower()
    if qualifier.form is Form.TIME:
        return _time(text, start, end)
    number = _number(text)
    if number is None or abs(number) > LARGEST_NUMBER:
        raise InvalidFilter(f"{text!r} is not a number such as 100 or 2.5k", start=start, end=end)
    return number


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found[1]) * _TIMES[found[2]] if found else None


def _time(text: str, start: int, end: int) -> timedelta | datetime:
    if found := _AGE.fullmatch(text):
        return min(timedelta(seconds=float(found[1]) * _SECONDS[found[2]]), LONGEST_AGE)
    if _DATE.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text.removesuffix("Z"))
        except ValueError:
            pass
        else:
            return moment.replace(tzinfo=UTC)
    raise InvalidFilter(
        f"{text!r} is neither an age, such as 36h or 7d, nor a date, such as 2026-03-01",
        start=start,
        end=end,
    )
