"""Numbers in the `info` of environments and of vector environments.

Gymnasium's own keys: `episode` is a dict of statistics, `final_info` the `info` of an episode that
has just ended, `final_obs` and `final_observation` its last observation, and ``_<name>`` the rows
in which the column `name` of a vector environment has a value.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

FINAL_OBSERVATIONS: Final = ("final_obs", "final_observation")
_OBSERVATIONS: Final = frozenset({*FINAL_OBSERVATIONS, "terminal_observation"})
_SKIPPED: Final = _OBSERVATIONS | {"final_info"}


def numbers_of(info: Any) -> Iterator[tuple[str, float]]:
    """Yield name and value of each number or bool in `info`; others are skipped.

    Statistics of Gymnasium's RecordEpisodeStatistics become ``episode/r``, ``/l`` and ``/t``.
    """
    if not isinstance(info, Mapping):
        return
    for name, value in info.items():
        if not isinstance(name, str) or name.startswith("_") or name in _SKIPPED:
            continue
        if name == "episode" and isinstance(value, Mapping):
            yield from ((f"episode/{key}", number) for key, number in numbers_of(value))
        elif (number := _number(value)) is not None:
            yield name, number


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
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.bool_ | np.integer | np.floating):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")
