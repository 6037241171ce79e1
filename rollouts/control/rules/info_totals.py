"""Sums of numeric values of `info` over a run, and the metrics between two measurements.

Stored as ``{"sums": {name: {scope: [count, total]}}, "dropped": {problem: count}}``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rolldeck.fleet_wire import INFO_NAME_LENGTH, INFO_NAMES_AT_MOST, InfoDrops, InfoWindow
from rollouts.fleet.worker.info_totals import InfoTotals

_SERIES: Final = {"episode": ("mean", "count"), "step": ("step_mean", "step_count")}
"""Names of the mean and the count by scope."""
_PROBLEMS: Final = {
    "out_of_range": "values that are not finite, or beyond ±1e30",
    "invalid_name": f"names longer than {INFO_NAME_LENGTH} characters, or with characters other "
    "than letters, digits, spaces and _ . / -",
    "too_many_names": f"more than {INFO_NAMES_AT_MOST} names",
}


class Added(NamedTuple):
    """Sums after a report."""

    totals: dict[str, Any]
    first_drops: list[InfoDrops]
    """Problems that occurred for the first time in the run."""


def added(totals: Mapping[str, Any], window: InfoWindow) -> Added:
    """Return the sums of a run after a report; only the run's first 64 names are summed."""
    checked = InfoTotals()
    sums = {name: dict(scopes) for name, scopes in totals.get("sums", {}).items()}
    dropped = dict(totals.get("dropped", {}))
    checked.know(sums)
    checked.merge(window)
    accepted = checked.pop()
    for one in accepted.sums:
        count, total = sums.setdefault(one.name, {}).get(one.scope, (0, 0.0))
        sums[one.name][one.scope] = [count + one.count, total + one.total]
    first = [drops for drops in accepted.dropped if drops.problem not in dropped]
    for drops in accepted.dropped:
        dropped[drops.problem] = dropped.get(drops.problem, 0) + drops.count
    found = {"sums": sums, "dropped": dropped}
    return Added({name: part for name, part in found.items() if part}, first)


def message_of(drops: InfoDrops) -> str:
    """Return the message of an event about dropped values."""
    return f"Values of info are dropped: {_PROBLEMS[drops.problem]}; the first is {drops.example!r}"


def info_figures(before: Mapping[str, Any], totals: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics between two measurements by name.

    Args:
        before: Sums at the previous measurement.
        totals: Present sums.
    """
    return dict(_figures(before, totals))


def _figures(before: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, scopes in totals.get("sums", {}).items():
        earlier = before.get("sums", {}).get(name, {})
        for scope, (count, total) in scopes.items():
            count_before, total_before = earlier.get(scope, (0, 0.0))
            if (new := count - count_before) > 0:
                mean, number = _SERIES[scope]
                yield f"info/{name}/{mean}", (total - total_before) / new
                yield f"info/{name}/{number}", float(new)
    for problem, count in totals.get("dropped", {}).items():
        if new := count - before.get("dropped", {}).get(problem, 0):
            yield f"info_dropped/{problem}", float(new)
