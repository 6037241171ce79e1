"""Optional timing spans of sequences, as sent by environments."""

import math
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

MOST_SPANS: Final = 256
"""Maximum number of spans of one sequence."""
LONGEST_NAME: Final = 60
LATEST_SECONDS: Final = 1e11
_FIELDS: Final = {"name", "start", "end"}


class Span(Struct, frozen=True, kw_only=True):
    """A timed activity during the generation of a sequence."""

    name: str
    """`generate`, `env step`, `reward` or any other name."""
    start: float
    """Seconds since 1970; values below 1e8 count from the beginning of the sequence."""
    end: float


class SpanProblem(NamedTuple):
    """A problem with spans; `path` is the path from the field."""

    path: tuple[str | int, ...]
    message: str


def span_problem(value: Any, *, sequences: int) -> SpanProblem | None:
    """Return the first problem of ``spans``, which must be a list of spans per sequence."""
    if not isinstance(value, list) or len(value) != sequences:
        return SpanProblem((), f"must hold a list for each of the {sequences} sequences")
    for index, row in enumerate(value):
        if not isinstance(row, list) or len(row) > MOST_SPANS:
            return SpanProblem((index,), f"must be a list of at most {MOST_SPANS} spans")
        for place, one in enumerate(row):
            if problem := _problem(one):
                return SpanProblem((index, place, *problem.path), problem.message)
    return None


def _problem(one: Any) -> SpanProblem | None:
    if not isinstance(one, dict) or set(one) != _FIELDS:
        return SpanProblem((), "must have exactly the fields name, start and end")
    name = one["name"]
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        return SpanProblem(("name",), f"must be a text of 1 to {LONGEST_NAME} characters")
    for field in ("start", "end"):
        value = one[field]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and math.isfinite(value) and 0 <= value <= LATEST_SECONDS):
            return SpanProblem((field,), f"must be seconds from 0 to {LATEST_SECONDS:g}")
    return SpanProblem(("end",), "is before start") if one["end"] < one["start"] else None


def valid_spans(content: bytes | None) -> dict[int, list[Span]]:
    """Return the valid spans of each sequence, ordered by start.

    Stock environments may use the field for something else, so invalid spans are ignored.
    """
    try:
        rows = msgspec.json.decode(content) if content else []
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    found = {}
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        spans = (
            [one for one in row[:MOST_SPANS] if _problem(one) is None]
            if isinstance(row, list)
            else []
        )
        if spans:
            found[index] = sorted(
                (Span(name=one["name"], start=one["start"], end=one["end"]) for one in spans),
                key=lambda span: (span.start, span.end),
            )
    return found
