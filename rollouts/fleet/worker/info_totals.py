"""Sums of numeric values of `info`, with limits on their names and range."""

import math
import re
from collections.abc import Iterable
from typing import Final

from rolldeck.fleet_wire import (
    INFO_NAME_LENGTH,
    INFO_NAME_PATTERN,
    INFO_NAMES_AT_MOST,
    InfoDrops,
    InfoProblem,
    InfoScope,
    InfoSum,
    InfoWindow,
)

MOST: Final = 1e30
"""Largest absolute value, so that sums stay finite."""
_VALID: Final = re.compile(INFO_NAME_PATTERN)


class InfoTotals:
    """Sums of the values of at most 64 names, first come; the others are counted."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        """Accepted names; they stay when the sums are taken."""
        self._sums: dict[tuple[str, InfoScope], tuple[int, float]] = {}
        self._dropped: dict[InfoProblem, tuple[int, str]] = {}

    def __bool__(self) -> bool:
        """Return whether there is anything to take."""
        return bool(self._sums or self._dropped)

    def add(self, name: str, value: float, *, scope: InfoScope) -> None:
        """Add one value, or count it as dropped."""
        if not -MOST <= value <= MOST:
            self._drop("out_of_range", 1, name)
        else:
            self._add(name, scope, 1, value)

    def know(self, names: Iterable[str]) -> None:
        """Count `names` among the accepted ones."""
        self._names.update(names)

    def merge(self, window: InfoWindow) -> None:
        """Add the sums of a part of the fleet."""
        for one in window.sums:
            if math.isfinite(one.total):
                self._add(one.name, one.scope, one.count, one.total)
            else:
                self._drop("out_of_range", one.count, one.name)
        for drops in window.dropped:
            self._drop(drops.problem, drops.count, drops.example)

    def pop(self) -> InfoWindow:
        """Return the sums since the last call."""
        sums, self._sums = self._sums, {}
        dropped, self._dropped = self._dropped, {}
        return InfoWindow(
            sums=[
                InfoSum(name=name, scope=scope, count=count, total=total)
                for (name, scope), (count, total) in sums.items()
            ],
            dropped=[
                InfoDrops(problem=problem, count=count, example=example)
                for problem, (count, example) in dropped.items()
            ],
        )

    def _add(self, name: str, scope: InfoScope, count: int, total: float) -> None:
        if name not in self._names and (problem := self._problem_of(name)):
            self._drop(problem, count, name)
            return
        self._names.add(name)
        before = self._sums.get((name, scope), (0, 0.0))
        self._sums[name, scope] = (before[0] + count, before[1] + total)

    def _problem_of(self, name: str) -> InfoProblem | None:
        if len(name) > INFO_NAME_LENGTH or not _VALID.fullmatch(name):
            return "invalid_name"
        return "too_many_names" if len(self._names) >= INFO_NAMES_AT_MOST else None

    def _drop(self, problem: InfoProblem, count: int, name: str) -> None:
        before, example = self._dropped.get(problem, (0, name[:200]))
        self._dropped[problem] = (before + count, example)
