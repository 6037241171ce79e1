"""Filter and sort order of the search for trajectories in all runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from web.rules.amounts import finite_number
from web.rules.errors import InvalidField

E = TypeVar("E", bound=StrEnum)
LONGEST_TEXT: Final = 200
RUNS_AT_MOST: Final = 500
"""Number of newest runs that one search covers."""


class TrajectoryKind(StrEnum):
    """Kind of a found trajectory."""

    GROUP = "group"
    """A trajectory group of an outside or language run."""
    EPISODE = "episode"
    """A training episode of a fleet run."""


class TrajectorySort(StrEnum):
    """Sort order of trajectories."""

    NEWEST = "newest"
    HIGHEST = "-score"
    LOWEST = "score"


class InvalidSearch(InvalidField):
    """A query parameter is invalid; `field` names it."""


class Position(NamedTuple):
    """Position in a list: sort value (None if newest first), id of a row, place in the row."""

    value: float | None
    row: int
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryFilter:
    """Filter of trajectories; a trajectory must match every field."""

    kind: TrajectoryKind = TrajectoryKind.GROUP
    text: str = ""
    """Words in the messages of groups."""
    environment: str = ""
    """Name of an environment or a lesson."""
    least: float | None = None
    """Least mean score of a group, or return of an episode."""
    most: float | None = None
    since: datetime | None = None
    until: datetime | None = None
    sort: TrajectorySort = TrajectorySort.NEWEST

    @property
    def is_open(self) -> bool:
        """Whether every trajectory matches."""
        bounds = (self.least, self.most, self.since, self.until)
        return not (self.text or self.environment) and all(bound is None for bound in bounds)


def parse_search(query: Mapping[str, str]) -> TrajectoryFilter:
    """Return the filter of a query string.

    Raises:
        InvalidSearch: If a parameter is invalid; names the first one.
    """
    found = TrajectoryFilter(
        kind=_choice(query, "kind", TrajectoryKind, TrajectoryKind.GROUP),
        text=_text(query, "q"),
        environment=_text(query, "environment"),
        least=_number(query, "score_min"),
        most=_number(query, "score_max"),
        since=_time(query, "since"),
        until=_time(query, "until"),
        sort=_choice(query, "sort", TrajectorySort, TrajectorySort.NEWEST),
    )
    if found.text and found.kind is TrajectoryKind.EPISODE:
        raise InvalidSearch("q", "episodes have no text: search groups, or leave it out")
    if found.least is not None and found.most is not None and found.least > found.most:
        raise InvalidSearch("score_min", f"{found.least:g} is above score_max {found.most:g}")
    if found.since and found.until and found.since > found.until:
        raise InvalidSearch("since", "is later than until")
    return found


def _text(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "").strip()
    if len(text) > LONGEST_TEXT or "\x00" in text:
        raise InvalidSearch(name, f"must have at most {LONGEST_TEXT} characters, without NUL")
    return text


def _choice(query: Mapping[str, str], name: str, kind: type[E], default: E) -> E:
    text = query.get(name, "")
    try:
        return kind(text) if text else default
    except ValueError:
        raise InvalidSearch(name, f"{text[:40]!r} is not one of {', '.join(kind)}") from None


def _number(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name, "")
    if not text:
        return None
    value = finite_number(text)
    if value is None:
        raise InvalidSearch(name, f"{text[:40]!r} is not a finite number")
    return value


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        # The "+" of an offset that was not percent-encoded arrives as a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        problem = f"{text[:40]!r} is not a date or time, such as 2026-01-31T12:00:00Z"
        raise InvalidSearch(name, problem) from None
