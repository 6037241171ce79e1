"""Explanations of why a cluster cannot place a fleet's workers.

A worker runs on one node, so capacity is checked per node, never as a sum. All workers of a fleet
request the same resources, so the number that fits is exact.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Resources = Mapping[str, float]
"""Amounts by Ray's resource names: `CPU`, `GPU`, custom ones."""

_GRAIN: Final = 1e-4
"""Smallest amount that Ray distinguishes; sums of fractions differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """Total and free resources of a living node."""

    total: Resources
    free: Resources
    node: str = ""
    """Ray's id of the node."""


def obstacle(required: Resources, nodes: Sequence[NodeRoom]) -> str:
    """Return why none of the living nodes fits one more worker; empty if one does."""
    able = [node for node in nodes if _fits(required, node.total)]
    if not able:
        return _never(required, nodes)
    if any(_fits(required, node.free) for node in able):
        return ""
    for name, amount in required.items():
        free = list(_amounts(name, (node.free for node in able)))
        if amount > max(free) + _GRAIN:
            total = sum(_amounts(name, (node.total for node in able)))
            spread = f" on {len(able)} nodes" if len(able) > 1 else ""
            return (
                f"a worker needs {amount:g} {name}, "
                f"{_number(sum(free))} of {_number(total)} are free{spread}"
            )
    return f"a worker needs {_amounts_text(required)} on one node, no node has all of it free"


def group_obstacle(required: Resources, nodes: Sequence[NodeRoom], *, workers: int) -> str:
    """Return why the living nodes have no room for `workers` together; empty if they have."""
    if not any(_fits(required, node.total) for node in nodes):
        return _never(required, nodes)
    fit = sum(_times(required, node.total) for node in nodes)
    if fit < workers:
        return (
            f"{workers} workers reserve {_amounts_text(required)} each, together; "
            f"the cluster has room for {fit}"
        )
    fit_now = sum(_times(required, node.free) for node in nodes)
    if fit_now < workers:
        return (
            f"{workers} workers reserve {_amounts_text(required)} each, together; "
            f"{fit_now} of {fit} such places are free"
        )
    return ""


def cordon_note(count: int) -> str:
    """Return the suffix of a message about missing resources while machines are cordoned."""
    if not count:
        return ""
    return "; 1 machine is cordoned" if count == 1 else f"; {count} machines are cordoned"


def _never(required: Resources, nodes: Sequence[NodeRoom]) -> str:
    """Return why no node fits a worker even if the cluster is idle."""
    if not required:
        return "no machine accepts workers"
    for name, amount in required.items():
        has = sum(_amounts(name, (node.total for node in nodes)))
        if amount > has + _GRAIN:
            return f"a worker needs {amount:g} {name}, the cluster has {_number(has)}"
        most = max(_amounts(name, (node.total for node in nodes)), default=0.0)
        if amount > most + _GRAIN:
            return (
                f"a worker needs {amount:g} {name} on one node, "
                f"the largest of {len(nodes)} has {_number(most)}"
            )
    return f"a worker needs {_amounts_text(required)} on one node, no node has all of it"


def _amounts(name: str, nodes: Iterable[Resources]) -> Iterable[float]:
    return (node.get(name, 0.0) for node in nodes)


def _fits(required: Resources, room: Resources) -> bool:
    return _times(required, room) > 0


def _times(required: Resources, room: Resources) -> int:
    """Return how many workers fit on a node with `room`."""
    counts = [
        math.floor((room.get(name, 0.0) + _GRAIN / 2) / amount) for name, amount in required.items()
    ]
    # A worker that reserves nothing fits on any node.
    return max(0, min(counts, default=1 << 30))


def _amounts_text(required: Resources) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in required.items()) or "nothing"


def _number(amount: float) -> str:
    return f"{round(amount, 4):g}"
