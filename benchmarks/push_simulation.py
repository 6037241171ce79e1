"""Simulate concurrent pushes on machines with more cores than this one.

A closed system: each client sends a group, waits for the answer and sends the next. A group needs
processor time in the client, in one of the web processes and in PostgreSQL, in this order. A web
process uses one core at a time, because of Python's global lock; the cores are shared by all.
Waits for the disk overlap with other groups and are left out, as are memory bandwidth and locks:
the result is an upper bound.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final

WARM_GROUPS: Final = 200
COUNTED_GROUPS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured costs of a group, in milliseconds of processor time."""

    groups_s: float
    """Groups per second in the measurement."""
    web_ms: float
    postgres_ms: float
    client_ms: float


@dataclass(slots=True)
class _Stage:
    """Work that at most `servers` groups do at once."""

    seconds: float
    servers: int
    waiting: "deque[int]"
    busy: int = 0

    def may_start(self) -> bool:
        return bool(self.waiting) and self.busy < self.servers


def groups_a_second(costs: Costs, *, clients: int, processes: int, cores: int) -> float:
    """Return the groups per second of `clients` with a number of web processes and cores."""
    stages = [
        _Stage(costs.client_ms / 1000, clients, deque(range(clients))),
        _Stage(costs.web_ms / 1000, processes, deque()),
        _Stage(costs.postgres_ms / 1000, clients, deque()),
    ]
    running: list[tuple[float, int, int]] = []
    now, done, warm_at = 0.0, 0, 0.0
    while done < WARM_GROUPS + COUNTED_GROUPS:
        # Work in progress is finished first: the last stage has the first claim on a core.
        for number in reversed(range(len(stages))):
            stage = stages[number]
            while len(running) < cores and stage.may_start():
                stage.busy += 1
                heapq.heappush(running, (now + stage.seconds, number, stage.waiting.popleft()))
        now, number, client = heapq.heappop(running)
        stages[number].busy -= 1
        following = (number + 1) % len(stages)
        stages[following].waiting.append(client)
        done += following == 0
        if done == WARM_GROUPS and following == 0:
            warm_at = now
    return COUNTED_GROUPS / (now - warm_at)
