"""Synchronize weights to one worker without waiting for it."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from rollouts.fleet.manager.workers import WorkerHandle, cause_of
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.weights.records import Rank, WeightsOffer

WEIGHTS_SECONDS: Final = 60.0
"""Time a worker has to answer an offer before the offer is repeated."""
NOTHING: Final[Rank] = (-1, -1, -2)


@dataclass(slots=True)
class _Call:
    future: Future[Any]
    since: float
    rank: Rank


class WeightsDistributor:
    """Weight sync of one worker, with at most one call in progress."""

    def __init__(self, index: int, events: EventLog) -> None:
        """Start without an offer; `index` is the index of the worker."""
        self._index = index
        self._events = events
        self._call: _Call | None = None
        self._known: Rank = NOTHING

    def reset_offers(self) -> None:
        """Forget all offers, which went to another incarnation."""
        self._call, self._known = None, NOTHING

    def offer(self, offer: WeightsOffer, handle: WorkerHandle, now: float) -> None:
        """Offer a version unless the worker has it or an offer is in progress."""
        if self._call is None and offer.rank > self._known:
            future = handle.submit("update_weights", offer)
            self._call = _Call(future, now, offer.rank)

    def on_offer_answer(self, now: float, *, has_started: bool) -> None:
        """Process an answer; `has_started` tells whether the worker has ever answered."""
        call = self._call
        if call is None:
            return
        if not call.future.done():
            if has_started and now - call.since > WEIGHTS_SECONDS:
                self._call = None
                self._emit_lost(call, f"no answer within {WEIGHTS_SECONDS:.0f} s")
            return
        self._call = None
        try:
            epoch, step = call.future.result()
        except Exception as error:  # noqa: BLE001 a lost worker raises many types
            self._emit_lost(call, cause_of(error))
        else:
            self._known = (call.rank[0], epoch, step)

    def _emit_lost(self, call: _Call, reason: str) -> None:
        self._events.add(
            "weights_not_delivered",
            f"Worker {self._index} did not take version {call.rank[2]}: {reason}",
            level="warning",
            worker=self._index,
        )
