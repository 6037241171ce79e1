"""Number a fleet's reports, and keep their content until it is delivered."""

import time
from collections import deque
from typing import Final, TypeVar

from rolldeck.wire import (
    EpisodeWindow,
    FleetEvent,
    FleetReport,
    InfoWindow,
    ReportedFleetState,
    WorkerReport,
)
from rollouts.fleet.worker.info_totals import InfoTotals

EPISODES_PER_REPORT: Final = 4096
EVENTS_PER_REPORT: Final = 256
EPISODES_KEPT: Final = 100_000
EVENTS_KEPT: Final = 4096

Item = TypeVar("Item")


class Reporter:
    """Builds reports; an undelivered report is sent again under the same number.

    Its episodes, values of `info` and events stay the same, so the platform can count each number
    once. The state of the fleet and its workers is always current.
    """

    def __init__(self, incarnation: str, *, node_id: str = "") -> None:
        """Start above every number that an earlier process of the incarnation can have used."""
        self.episodes: deque[EpisodeWindow] = deque(maxlen=EPISODES_KEPT)
        self.events: deque[FleetEvent] = deque(maxlen=EVENTS_KEPT)
        self.info = InfoTotals()
        self._incarnation = incarnation
        self._node_id = node_id
        # Ray may restart a manager with the same settings: a counter would restart as well.
        self._sequence = int(time.time() * 1000)
        self._under_way: tuple[list[EpisodeWindow], InfoWindow, list[FleetEvent]] | None = None

    def next(
        self,
        state: ReportedFleetState,
        reason: str,
        workers: list[WorkerReport],
        *,
        is_final: bool = False,
    ) -> FleetReport:
        """Return the next report; see :class:`FleetReport` for `is_final`."""
        if self._under_way is None:
            self._sequence += 1
            episodes = _pop_up_to(self.episodes, EPISODES_PER_REPORT)
            events = _pop_up_to(self.events, EVENTS_PER_REPORT)
            self._under_way = (episodes, self.info.pop(), events)
        episodes, info, events = self._under_way
        return FleetReport(
            incarnation=self._incarnation,
            sequence=self._sequence,
            state=state,
            reason=reason,
            is_final=is_final,
            node_id=self._node_id,
            workers=workers,
            episodes=episodes,
            info=info,
            events=events,
        )

    def delivered(self) -> None:
        """Drop the content of the delivered report."""
        self._under_way = None

    def preview(
        self, state: ReportedFleetState, reason: str, workers: list[WorkerReport]
    ) -> FleetReport:
        """Return a report without episodes, values of `info` and events, which is not sent."""
        return FleetReport(
            incarnation=self._incarnation,
            sequence=self._sequence,
            state=state,
            reason=reason,
            workers=workers,
        )


def _pop_up_to(queue: deque[Item], most: int) -> list[Item]:
    return [queue.popleft() for _ in range(min(most, len(queue)))]
