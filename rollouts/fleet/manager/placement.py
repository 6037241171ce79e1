"""Say in words why a cluster has no seat for a fleet's workers.

A worker sits on one node as a whole, so what counts is each node, never the sum alone.
All workers of a fleet want the same, which makes it exact how many of them fit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Resources = Mapping[str, float]
"""Amounts by Ray's names: `CPU`, `GPU`, custom ones."""

_GRAIN: Final = 1e-4
"""The smallest amount that Ray knows; sums of fractions differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """What a living node has, and what of it is free."""

    total: Resources
    free: Resources
    node: str = ""
    """As Ray calls it."""


def obstacle(wanted: Resources, nodes: Sequence[NodeRoom]) -> str:
    """Return why no node takes one more worker; empty if one does.

    Args:
        wanted: Of one worker.
        nodes: Every living node.
    """
    able = [node for node in nodes if _fits(wanted, node.total)]
    if not able:
        return _never(wanted, nodes)
    if any(_fits(wanted, node.free) for node in able):
        return ""
    return f"a worker needs {_scarce(wanted, able)}"


def group_obstacle(wanted: Resources, nodes: Sequence[NodeRoom], *, workers: int) -> str:
    """Return why the cluster cannot reserve room for `workers` together; empty if it can.

    Args:
        wanted: Of one worker.
        nodes: Every living node.
        workers: How many there are.
    """
    if not any(_fits(wanted, node.total) for node in nodes):
        return _never(wanted, nodes)
    fit = sum(_times(wanted, node.total) for node in nodes)
    if fit < workers:
        return (
            f"{workers} workers reserve {_words(wanted)} each, together; "
            f"the cluster has room for {fit}"
        )
    fit_now = sum(_times(wanted, node.free) for node in nodes)
    if fit_now < workers:
        return (
            f"{workers} workers reserve {_words(wanted)} each, together; "
            f"{fit_now} of {fit} such seats are free"
        )
    return ""


def cordoned_words(count: int) -> str:
    """Return what is said behind a lack while so many machines are cordoned."""
    if not count:
        return ""
    return "; 1 machine is cordoned" if count == 1 else f"; {count} machines are cordoned"


def _never(wanted: Resources, nodes: Sequence[NodeRoom]) -> str:
    """Return why no node takes a worker even when nothing else runs."""
    if not wanted:
        return "no machine takes workers"
    for name, amount in wanted.items():
        has = sum(_amounts(name, (node.total for node in nodes)))
        if amount > has + _GRAIN:
            return f"a worker needs {amount:g} {name}, the cluster has {_number(has)}"
        most = max(_amounts(name, (node.total for node in nodes)), default=0.0)
        if amount > most + _GRAIN:
            return (
                f"a worker needs {amount:g} {name} on one node, "
                f"the largest of {len(nodes)} has {_number(most)}"
            )
    return f"a worker needs {_words(wanted)} on one node, none has them together"


def _scarce(wanted: Resources, able: Sequence[NodeRoom]) -> str:
    """Return which amount is free on no node that could take a worker."""
    for name, amount in wanted.items():
        free = list(_amounts(name, (node.free for node in able)))
        if amount > max(free) + _GRAIN:
            total = sum(_amounts(name, (node.total for node in able)))
            spread = f" on {len(able)} nodes" if len(able) > 1 else ""
            return f"{amount:g} {name}, {_number(sum(free))} of {_number(total)} are free{spread}"
    return f"{_words(wanted)} on one node, none has them free together"


def _amounts(name: str, nodes: Iterable[Resources]) -> Iterable[float]:
    return (node.get(name, 0.0) for node in nodes)


def _fits(wanted: Resources, room: Resources) -> bool:
    return _times(wanted, room) > 0


def _times(wanted: Resources, room: Resources) -> int:
    """Return how many workers a node with `room` takes."""
    counts = [
        math.floor((room.get(name, 0.0) + _GRAIN / 2) / amount) for name, amount in wanted.items()
    ]
    # A worker that reserves nothing fits anywhere.
    return max(0, min(counts, default=1 << 30))


def _words(wanted: Resources) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in wanted.items()) or "nothing"


def _number(amount: float) -> str:
    return f"{round(amount, 4):g}"
