"""Numbers of a group for the series of its environment: of `info`, `metadata` and overrides.

A key that two fields have is read from the first of :data:`FIELDS`. Booleans count as 0 and 1. A
list with one item for each sequence has a value for each; anything else has one for the group.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from buffer.inspect.rules.facts import decoded_field, leaves
from rolldeck.groups import GroupArrays
from rolldeck.metric_names import NOT_IN_NAMES

FIELDS: Final = ("info", "metadata", "overrides", "group_overrides")
MOST_OF_GROUP: Final = 64
"""Maximum number of keys of one group."""
MOST_KEYS: Final = 200
"""Maximum number of keys of one environment of a run."""
LONGEST_NAME: Final = 120
"""Maximum length of the name of a series."""
LARGEST: Final = 1e30
"""Largest absolute value, so that sums stay finite."""


class IgnoredNumber(StrEnum):
    """Problem of a value that is in no series."""

    TEXT = "text"
    """A text that spells a number."""
    OUT_OF_RANGE = "out_of_range"
    """Not finite, or greater than 1e30."""
    INVALID_NAME = "invalid_name"
    """Its name is too long for a series, or has other characters than these have."""
    TOO_MANY_NAMES = "too_many_names"
    """The group or the environment has the maximum number of other names."""
    REPEATED = "repeated"
    """Another field of the group has the same key."""
    UNREADABLE = "unreadable"
    """Its field is no JSON, greater than 1 MiB, or a list of another length than the group."""


@dataclass(slots=True)
class Numbers:
    """Sums by key, and ignored values by problem, of some groups of one environment."""

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Sum and count of the values of a key."""
    ignored: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Count of the values with a problem, and the key of the newest."""

    def add(self, key: str, total: float, count: int = 1) -> None:
        """Add values of a key."""
        before, counted = self.sums.get(key, (0.0, 0))
        self.sums[key] = before + total, counted + count

    def ignore(self, problem: str, key: str, count: int = 1) -> None:
        """Count ignored values."""
        shown = key.replace("\x00", "\ufffd").encode(errors="replace").decode()[:LONGEST_NAME]
        self.ignored[problem] = self.ignored.get(problem, (0, ""))[0] + count, shown

    def merge(self, others: "Numbers", *, prefix: str, known: Set[str]) -> list[str]:
        """Add the numbers of further groups; return the new keys.

        Args:
            others: Numbers of groups of the same environment.
            prefix: Beginning of the names of its series.
            known: Keys that it already has; at most :data:`MOST_KEYS` with the new ones.
        """
        new: list[str] = []
        for key, (total, count) in others.sums.items():
            if key not in known and key not in new:
                if len(known) + len(new) >= MOST_KEYS:
                    self.ignore(IgnoredNumber.TOO_MANY_NAMES, key, count)
                    continue
                if NOT_IN_NAMES.search(key) or len(prefix + key) > LONGEST_NAME:
                    self.ignore(IgnoredNumber.INVALID_NAME, key, count)
                    continue
                new.append(key)
            self.add(key, total, count)
        for problem, (count, key) in others.ignored.items():
            self.ignore(problem, key, count)
        return new


def with_ignored(
    before: Mapping[str, Mapping[str, Any]], numbers: Numbers, *, now: datetime
) -> dict[str, Any]:
    """Return the stored ignored values of an environment with further ones.

    By problem: ``values``, ``key`` and ``newest_at``, of the newest.
    """
    return {
        **before,
        **{
            problem: {
                "values": before.get(problem, {}).get("values", 0) + count,
                "key": key,
                "newest_at": now.isoformat(),
            }
            for problem, (count, key) in numbers.ignored.items()
        },
    }


def numbers_of(group: GroupArrays) -> Numbers:
    """Return the numbers of a group."""
    found = Numbers()
    owners: dict[str, str] = {}
    for name in FIELDS:
        if name not in group.json:
            continue
        content, is_readable = decoded_field(group, name)
        if not is_readable:
            found.ignore(IgnoredNumber.UNREADABLE, name)
        rows = content if isinstance(content, list) else [content]
        objects = [row for row in rows if isinstance(row, Mapping)]
        if objects and rows is content and len(rows) != group.sequences:
            found.ignore(IgnoredNumber.UNREADABLE, name)
            continue
        for row in objects:
            for key, value in leaves("", row):
                number = _number(value)
                if number is None:
                    continue
                if owners.setdefault(key, name) != name:
                    found.ignore(IgnoredNumber.REPEATED, key)
                elif isinstance(number, str):
                    found.ignore(number, key)
                elif key not in found.sums and len(found.sums) >= MOST_OF_GROUP:
                    found.ignore(IgnoredNumber.TOO_MANY_NAMES, key)
                else:
                    found.add(key, number)
    return found


def _number(value: Any) -> float | IgnoredNumber | None:
    """Return a number, the problem of one, or None for other values."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return None
        return IgnoredNumber.TEXT
    if not isinstance(value, int | float):
        return None
    is_usable = -LARGEST <= value <= LARGEST and not math.isnan(value)
    return float(value) if is_usable else IgnoredNumber.OUT_OF_RANGE
