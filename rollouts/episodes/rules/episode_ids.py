"""Ids of the episodes of a report, from its env slots."""

from typing import Literal, Protocol

from rolldeck.fleet_wire import episode_id, slot_name


class Report(Protocol):
    """A report that may identify its episodes."""

    worker: int
    mode: str
    incarnation: str
    return_min: float
    return_max: float
    length_max: int
    returns: list[float]
    lengths: list[int]
    slots: list[int]
    """Of the listed episodes, then of the lowest, the highest and the longest one."""
    numbers: list[int]


def episodes_with(report: Report, *, of: Literal["return", "length"], value: float) -> list[str]:
    """Return the ids of the episodes with a return or length, listed ones first.

    Empty for evaluations, which fragments do not hold, and for reports without slots.
    """
    if report.mode != "train" or not report.slots:
        return []
    values: list[float | None]
    if of == "return":
        values = [*report.returns, report.return_min, report.return_max, None]
    else:
        values = [*report.lengths, None, None, report.length_max]
    rows = zip(values, report.slots, report.numbers, strict=False)
    found = {(slot, number): None for each, slot, number in rows if each == value}
    return [
        episode_id(
            slot_name(worker=report.worker, slot=slot, incarnation=report.incarnation), number
        )
        for slot, number in found
    ]
