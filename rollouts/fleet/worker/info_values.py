"""Numbers in the `info` of environments and of vector environments, and their sums.

Gymnasium's own keys: `episode` is a dict of statistics, `final_info` the `info` of an episode that
has just ended, `final_obs` and `final_observation` its last observation, and ``_<name>`` the rows
in which the column `name` of a vector environment has a value. Sums have limits on names and range.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from rolldeck.fleet_wire import (
    INFO_NAME_LENGTH,
    INFO_NAME_PATTERN,
    INFO_NAMES_AT_MOST,
    INFO_NAMES_RESERVED,
    InfoDrops,
    InfoProblem,
    InfoScope,
    InfoSum,
    InfoWindow,
)

FINAL_OBSERVATIONS: Final = ("final_obs", "final_observation")
_OBSERVATIONS: Final = INFO_NAMES_RESERVED - {"final_info"}
MOST: Final = 1e30
"""Largest absolute value, so that sums stay finite."""
_NUMBERS: Final = (float, int, np.floating, np.integer, np.bool_)
_VALID: Final = re.compile(INFO_NAME_PATTERN)


def numbers_of(info: Any) -> Iterator[tuple[str, float]]:
    """Yield name and value of each number or bool in `info`; others are skipped.

    Statistics of Gymnasium's RecordEpisodeStatistics become ``episode/r``, ``/l`` and ``/t``.
    """
    if not isinstance(info, Mapping):
        return
    for name, value in info.items():
        if not isinstance(name, str) or name.startswith("_") or name in INFO_NAMES_RESERVED:
            continue
        if name == "episode" and isinstance(value, Mapping):
            yield from ((f"episode/{key}", number) for key, number in numbers_of(value))
        elif (number := _number(value)) is not None:
            yield name, number


def numbers_at(info: Any, keys: Sequence[str]) -> list[float]:
    """Return the number or bool at each key of `info`; a dot leads into a dict.

    NaN for any other value, for none, and for numbers that are not finite or beyond ±1e30.
    """
    if not isinstance(info, Mapping):
        return [math.nan] * len(keys)
    found = []
    for key in keys:
        if key in info:
            number = _number(info[key])
            found.append(number if number is not None and -MOST <= number <= MOST else math.nan)
        else:
            name, _, rest = key.partition(".")
            found += numbers_at(info.get(name) if rest else None, [rest])
    return found


def task_of(info: Any) -> str:
    """Return the name of the episode's task, the text `task`; empty if there is none."""
    task = info.get("task") if isinstance(info, Mapping) else None
    return str(task) if isinstance(task, str) else ""


def episode_info(info: Any) -> Any:
    """Return the `info` of the episode that the step ended.

    An environment that has begun the next episode has it in `final_info`.
    """
    final = info.get("final_info") if isinstance(info, Mapping) else None
    return final if isinstance(final, Mapping) else info


def split_rows(info: Mapping[str, Any], rows: int) -> list[dict[str, Any]]:
    """Return the `info` of each row of a vector environment.

    Args:
        info: Columns ``[N]``, masks ``_<name> [N]``, and dicts of these. Before Gymnasium 1.0,
            `final_info` is an array of dicts.
        rows: N.

    Raises:
        ValueError: If a column has another length.
    """
    split: list[dict[str, Any]] = [{} for _ in range(rows)]
    for name, column in info.items():
        if not isinstance(name, str) or name.startswith("_") or name in _OBSERVATIONS:
            continue
        values: Any = split_rows(column, rows) if isinstance(column, Mapping) else column
        mask = info.get(f"_{name}")
        is_set = np.ones(rows, dtype=np.bool_) if mask is None else np.asarray(mask)
        for what, found in ((name, values), (f"_{name}", is_set)):
            if np.ndim(found) == 0 or len(found) != rows:
                raise ValueError(f"info {what!r} must have {rows} rows")
        for row in np.flatnonzero(is_set).tolist():
            split[row][name] = values[row]
    return split


def final_rows(info: Any, rows: int) -> dict[int, Any]:
    """Return row → last observation of each row whose environment has begun the next episode.

    Raises:
        ValueError: If a column has another length.
    """
    found: dict[int, Any] = {}
    for name in FINAL_OBSERVATIONS:
        column = info.get(name) if isinstance(info, Mapping) else None
        if column is None or isinstance(column, Mapping):
            continue
        split = split_rows({"final": column, "_final": info.get(f"_{name}")}, rows)
        found |= {at: one["final"] for at, one in enumerate(split) if one.get("final") is not None}
    return found


def _number(value: Any) -> float | None:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if not isinstance(value, _NUMBERS):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


class InfoTotals:
    """Sums of the values of at most 64 names, first come; the others are counted."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        """Accepted names; they stay when the sums are taken."""
        self._sums: dict[tuple[str, InfoScope], tuple[int, float]] = {}
        self._dropped: dict[InfoProblem, tuple[int, str]] = {}

    def __bool__(self) -> bool:
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
        if name not in self._names:
            is_valid = len(name) <= INFO_NAME_LENGTH and _VALID.fullmatch(name)
            if not is_valid or len(self._names) >= INFO_NAMES_AT_MOST:
                self._drop("too_many_names" if is_valid else "invalid_name", count, name)
                return
            self._names.add(name)
        before = self._sums.get((name, scope), (0, 0.0))
        self._sums[name, scope] = (before[0] + count, before[1] + total)

    def _drop(self, problem: InfoProblem, count: int, name: str) -> None:
        before, example = self._dropped.get(problem, (0, name[:200]))
        self._dropped[problem] = (before + count, example)
