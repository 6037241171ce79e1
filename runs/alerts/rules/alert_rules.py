"""Limits of alert rules: a comparison with a threshold, and its minimum duration.

A number holds from its sample until the next one. Non-finite samples breach only the comparator
`not_finite`. The comparator `no_data` is breached by missing samples.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from web.rules.errors import InvalidField

RULES_AT_MOST: Final = 100
"""Maximum per deployment: each rule is evaluated every few seconds."""
LONGEST_SECONDS: Final = 86_400
SHORTEST_SILENCE_SECONDS: Final = 10
"""Metrics arrive up to tens of seconds apart, so shorter gaps are normal."""


class Comparator(StrEnum):
    """Comparison that breaches a rule."""

    ABOVE = "above"
    AT_LEAST = "at_least"
    BELOW = "below"
    AT_MOST = "at_most"
    NOT_FINITE = "not_finite"
    NO_DATA = "no_data"
    """The metric has stopped arriving."""


UNCOMPARED: Final = frozenset({Comparator.NOT_FINITE, Comparator.NO_DATA})
"""Comparators without a threshold."""


_WORDS: Final = {
    Comparator.ABOVE: "above",
    Comparator.AT_LEAST: "at least",
    Comparator.BELOW: "below",
    Comparator.AT_MOST: "at most",
}


class InvalidRule(InvalidField):
    """The rule is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Comparator, threshold and minimum duration of a rule."""

    comparator: Comparator
    threshold: float | None = None
    """None for `not_finite` and `no_data`."""
    for_seconds: int = 0

    def __post_init__(self) -> None:
        is_compared = self.comparator not in UNCOMPARED
        if is_compared and (self.threshold is None or not math.isfinite(self.threshold)):
            raise InvalidRule("threshold", "must be a finite number")
        if not is_compared and self.threshold is not None:
            raise InvalidRule("threshold", "must be null for this comparator")
        if not 0 <= self.for_seconds <= LONGEST_SECONDS:
            raise InvalidRule("for_seconds", f"must be from 0 to {LONGEST_SECONDS}")
        if self.is_silence and self.for_seconds < SHORTEST_SILENCE_SECONDS:
            least = SHORTEST_SILENCE_SECONDS
            raise InvalidRule("for_seconds", f"must be at least {least} for no_data")

    @property
    def is_silence(self) -> bool:
        """Whether missing samples breach the limit."""
        return self.comparator == Comparator.NO_DATA

    @property
    def condition(self) -> str:
        """Return the limit in words: ``above 5 for 10 min``."""
        if self.is_silence:
            return f"without data for {_span(self.for_seconds)}"
        if self.comparator == Comparator.NOT_FINITE:
            value = "not finite"
        else:
            value = f"{_WORDS[self.comparator]} {self.threshold:g}"
        return f"{value} for {_span(self.for_seconds)}" if self.for_seconds else value

    def is_broken_by(self, value: float) -> bool:
        """Return whether one sample breaches the limit."""
        if self.is_silence:
            return False
        if self.threshold is None:
            return not math.isfinite(value)
        if not math.isfinite(value):
            return False
        return {
            Comparator.ABOVE: value > self.threshold,
            Comparator.AT_LEAST: value >= self.threshold,
            Comparator.BELOW: value < self.threshold,
            Comparator.AT_MOST: value <= self.threshold,
        }[self.comparator]


def _span(seconds: int) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
