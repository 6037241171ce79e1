"""Load versions of the weights next to the rollout loop: offer, receive, prepare, adopt."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    WeightsTransfers,
)
from rollouts.fleet.policies.policy_protocol import (
    WeightsConsumer,
    WeightsDoNotFit,
    WeightsRejected,
)
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.weights.records import (
    Rank,
    Version,
    WeightsOffer,
    WeightsRecord,
    WeightsUnavailable,
)

RETRY_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 1.0
FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS = 0.5, 30.0
"""Wait before a failed version is retried; doubled each time up to the maximum."""
PARAMETERS_REPORTED: Final = 64
"""Maximum number of parameters that a refusal event lists."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A version in the form that one policy adopts, together with its label."""

    rank: Rank
    policy: WeightsConsumer
    weights: Any
    draw_with: Callable[[Version], Version]


class WeightsLoader:
    """Newest version offered to a worker, and the version in use.

    Any thread may call `offer`; the loader's thread calls `turn`; the acting thread calls `serve`
    and `adopt`. Receiving and preparing may be slow; adopting swaps a reference. The label
    changes only together with the weights, so they always match. Each offered version is
    adopted, refused, superseded by a later one, or still in progress.
    """

    def __init__(self, events: EventLog, *, announce_ready: Callable[[], None]) -> None:
        """Start without weights.

        Args:
            events: Receives events about versions that could not be loaded.
            announce_ready: Called when a version is ready to be adopted.
        """
        self._events = events
        self._announce_ready = announce_ready
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = False
        self._offer: WeightsOffer | None = None
        self._record: WeightsRecord | None = None
        self._policy: WeightsConsumer | None = None
        self._draw_with: Callable[[Version], Version] = _draw_with_adopted
        self._prepared: _Prepared | None = None
        self._active: Version | None = None
        self._active_order = 0
        self._tried: Rank | None = None
        """Last version that needs no further turn: prepared or refused."""
        self._refused: tuple[Rank, str] | None = None
        self._told_lost: Rank | None = None
        self._missed: tuple[Rank, float] | None = None
        """Version that was not taken, and when to retry it."""
        self._wait_seconds = FIRST_WAIT_SECONDS
        self._busy_since: float | None = None
        self._open: set[Rank] = set()
        """Versions that were offered and have no final state yet."""
        self._counts = Counter[str]()
        self._received_bytes = 0
        self._seconds = 0.0

    @property
    def staged(self) -> Version | None:
        """Version that was received last."""
        record = self._record
        return record.version if record else None

    @property
    def record(self) -> WeightsRecord | None:
        """Version that was received last, with its tensors."""
        return self._record

    @property
    def active(self) -> Version | None:
        """Version that the policy uses."""
        return self._active

    @property
    def transfers(self) -> WeightsTransfers:
        """Counts of the offered versions by final state."""
        with self._lock:
            return WeightsTransfers(
                **self._counts,
                received_bytes=self._received_bytes,
                seconds=self._seconds,
                order=self._active_order,
            )

    @property
    def refusal(self) -> str:
        """Reason why the newest version was refused; empty if it was not."""
        refused, record = self._refused, self._record
        return refused[1] if refused and record and refused[0] == record.rank else ""

    def busy_seconds(self, now: float) -> float:
        """Return for how long the current version has been loading; 0 if none is."""
        since = self._busy_since
        return 0.0 if since is None else now - since

    def offer(self, offer: WeightsOffer) -> Version:
        """Store an offered version; return the highest-ranked version offered so far.

        That is the newest one, unless an operator has since ordered another one.
        """
        with self._lock:
            newest = self._offer or self._record
            if newest is not None and offer.rank <= newest.rank:
                return newest.version
            self._offer = offer
            self._open.add(offer.rank)
        self._wake.set()
        return offer.version

    def serve(
        self, policy: WeightsConsumer, *, draw_with: Callable[[Version], Version] | None = None
    ) -> None:
        """Prepare weights for `policy` from now on, starting with none.

        Args:
            policy: Adopts the weights.
            draw_with: Called after adoption to pass the version to a separate sampler; returns
                the version in use. May be slow, and may raise WeightsDoNotFit or WeightsRejected.
        """
        with self._lock:
            self._policy, self._prepared = policy, None
            self._draw_with = draw_with or _draw_with_adopted
            self._active = self._tried = self._refused = self._missed = None
        self._wake.set()

    def adopt(self) -> bool:
        """Switch the policy to the prepared version, if there is one; return whether it did.

        Until the switch has succeeded, the earlier version is used and `active` names it.
        """
        if self._prepared is None:
            return False
        with self._lock:
            ready, self._prepared = self._prepared, None
        if ready is None:
            return False
        try:
            ready.policy.adopt(ready.weights)
            active = ready.draw_with(ready.rank[1:])
        except WeightsDoNotFit as misfit:
            self._refuse(ready.rank, misfit)
            return False
        except WeightsRejected as failure:
            self._miss(ready, failure)
            return False
        with self._lock:
            if ready.policy is not self._policy:
                return False
            self._settle("adopted", ready.rank)
            self._active, self._refused, self._missed = active, None, None
            self._active_order = ready.rank[0]
        return True

    def turn(self) -> None:
        """Wait for an offer or a policy, then load."""
        self._wake.wait(RETRY_SECONDS if self._offer else IDLE_SECONDS)
        self._wake.clear()
        if not self._is_closed:
            self.load()

    def load(self) -> None:
        """Receive and prepare the newest version, as far as possible."""
        self._busy_since = time.monotonic()
        try:
            self._receive()
            self._prepare()
        finally:
            self._busy_since = None

    def close(self) -> None:
        """End the wait of the current turn."""
        self._is_closed = True
        self._wake.set()

    def _receive(self) -> None:
        offer = self._offer
        if offer is None:
            return
        began = time.monotonic()
        try:
            record = offer.receive(offer.version)
            problem = "its source no longer holds it"
        except (WeightsUnavailable, InvalidMessageError) as failure:
            record, problem = None, str(failure)
        if record is None:
            self._counts["failed"] += 1
            # One event per version; it is retried regardless.
            if self._told_lost != offer.rank:
                self._told_lost = offer.rank
                self._events.add(
                    "weights_not_received",
                    f"Version {offer.rank[2]} was not received: {problem}",
                    level="warning",
                    version=list(offer.rank[1:]),
                )
            return
        with self._lock:
            self._record = record
            if self._offer is offer:
                self._offer = None
            self._counts["received"] += 1
            self._received_bytes += record.size_bytes
            self._seconds += time.monotonic() - began

    def _prepare(self) -> None:
        record, policy = self._record, self._policy
        if record is None or policy is None or record.rank == self._tried:
            return
        if self._missed and self._missed[0] == record.rank and time.monotonic() < self._missed[1]:
            return
        try:
            weights = policy.prepare(record.tensors)
        except ValueError as misfit:
            self._refuse(record.rank, misfit)
            return
        with self._lock:
            # The policy was replaced: the next turn starts over.
            if policy is not self._policy:
                self._wake.set()
                return
            self._prepared = _Prepared(record.rank, policy, weights, self._draw_with)
            self._tried = record.rank
            if self._offer is not None:
                self._wake.set()
        self._announce_ready()

    def _refuse(self, rank: Rank, misfit: ValueError) -> None:
        text = f"the weights of version {rank[2]} do not fit: {misfit}"
        with self._lock:
            self._settle("refused", rank)
            self._tried, self._refused = rank, (rank, text)
        parameters = misfit.parameters if isinstance(misfit, WeightsDoNotFit) else {}
        flaws = {name[:200]: flaw for name, flaw in islice(parameters.items(), PARAMETERS_REPORTED)}
        self._events.add(
            "weights_refused",
            text[0].upper() + text[1:],
            level="error",
            version=list(rank[1:]),
            parameters=flaws,
        )

    def _miss(self, missed: _Prepared, failure: WeightsRejected) -> None:
        """Schedule a retry of a version; emit one event per version."""
        rank = missed.rank
        is_new = self._missed is None or self._missed[0] != rank
        self._wait_seconds = (
            FIRST_WAIT_SECONDS if is_new else min(MOST_WAIT_SECONDS, 2 * self._wait_seconds)
        )
        text = f"the weights of version {rank[2]} were not taken, retrying: {failure}"
        with self._lock:
            self._missed = rank, time.monotonic() + self._wait_seconds
            self._tried, self._refused = None, (rank, text)
            if failure.active is not None and missed.policy is self._policy:
                self._active = failure.active
        if is_new:
            sentence = text[0].upper() + text[1:]
            self._events.add("weights_refused", sentence, level="warning", version=list(rank[1:]))

    def _settle(self, state: str, rank: Rank) -> None:
        """Count the final state of a version; all earlier open versions count as superseded."""
        over = {one for one in self._open if one <= rank}
        self._open -= over
        self._counts[state] += rank in over
        self._counts["superseded"] += len(over - {rank})


def _draw_with_adopted(version: Version) -> Version:
    """Return the version: the policy that adopted the weights also samples with them."""
    return version
