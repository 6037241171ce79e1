"""Have slots film their next episode, and bring the films to the platform."""

import contextlib
import logging
import queue
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from rolldeck.errands import MOST_RECORDED_BYTES, Filmed, RecordingOrder, RecordingUpdate
from rolldeck.errors import InvalidRequest, NotFound, RolldeckError
from rollouts.fleet.steps.env_messages import Recorded
from rollouts.fleet.steps.recorder import description_of

if TYPE_CHECKING:
    # A worker without a platform needs no HTTP client.
    from rollouts.fleet.spool.platform_api import PlatformApi

logger = logging.getLogger(__name__)

ENCODE_SECONDS: Final = 60.0
"""How long an encoder may take after an episode's end."""
TRIES: Final = 5
LOOK_AGAIN_SECONDS: Final = 0.25
"""How often an order that no slot could take looks for one again."""
MOST_ORDERS: Final = 16


class Filming(Protocol):
    """Tells an env process to film a slot."""

    def record(self, slot: int, order_id: str, film: str) -> bool:
        """Film the slot's next episode; False if the slot cannot."""


@dataclass(slots=True)
class _Take:
    order: RecordingOrder
    film: Path


class Recordings:
    """The recordings of one worker.

    `assign`, `finished` and `lost` belong to the rollout loop and never wait; `turn` belongs in
    a loop of its own, which waits for encoders and speaks with the platform.
    """

    def __init__(self, *, worker: int, slots: int, api: "PlatformApi") -> None:
        """Begin with nothing to film."""
        self._worker = worker
        self._slots = slots
        self._api = api
        self._folder = Path(tempfile.mkdtemp(prefix="rolldeck-films-"))
        self._orders: list[RecordingOrder] = []
        self._takes: dict[int, _Take] = {}
        self._next_slot = 0
        self._look_again_at = 0.0
        self._updates: queue.Queue[tuple[str, RecordingUpdate, Path | None] | None] = queue.Queue()
        self._lock = threading.Lock()

    @property
    def has_orders(self) -> bool:
        """Whether something waits for a slot."""
        return bool(self._orders)

    def ask(self, order: RecordingOrder) -> None:
        """Take an order; one that is known already is not taken twice."""
        with self._lock:
            known = {one.id for one in self._orders} | {t.order.id for t in self._takes.values()}
            if order.id not in known and len(known) < MOST_ORDERS:
                self._orders.append(order)

    def assign(self, filming: Filming, now: float) -> None:
        """Give each order a slot that films nothing yet; those left over wait for one."""
        if now < self._look_again_at:
            return
        self._look_again_at = now + LOOK_AGAIN_SECONDS
        with self._lock:
            orders = list(self._orders)
        for order in orders:
            slot = self._assign(order, filming)
            if slot is None:
                continue
            with self._lock:
                self._orders.remove(order)
            update = RecordingUpdate(state="recording", worker=self._worker, slot=slot)
            self._updates.put((order.id, update, None))

    def finished(self, slot: int, recorded: Recorded, policy_step: int) -> None:
        """Take what a slot has filmed; the encoder may still be at it."""
        take = self._takes.pop(slot, None)
        if take is None or take.order.id != recorded.order_id:
            return
        if recorded.error:
            self._fail(take.order, slot, recorded.error)
            return
        update = RecordingUpdate(
            state="ready",
            worker=self._worker,
            slot=slot,
            total_return=recorded.total_return,
            length=recorded.length,
            outcome=recorded.outcome,  # type: ignore[arg-type]
            policy_step=policy_step,
        )
        self._updates.put((take.order.id, update, take.film))

    def lost(self, slot: int) -> None:
        """Give up what the slot was filming: its environment is gone."""
        take = self._takes.pop(slot, None)
        if take is not None:
            self._fail(take.order, slot, "the environment was lost before its episode ended")

    def close(self) -> None:
        """End the wait of the turn under way, and forget all films."""
        self._updates.put(None)
        for film in self._folder.glob("*"):
            film.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def turn(self) -> None:
        """Tell the platform one thing, or wait up to a second for something to tell."""
        try:
            told = self._updates.get(timeout=1.0)
        except queue.Empty:
            return
        if told is None:
            return
        recording_id, update, film = told
        if film is not None:
            update = self._with_film(update, film)
        self._tell(recording_id, update)

    def _assign(self, order: RecordingOrder, filming: Filming) -> int | None:
        """Return the slot that films, if one can."""
        candidates = [order.slot] if order.slot is not None else self._rotated()
        film = self._folder / f"{order.id}.film"
        for slot in candidates:
            if slot in self._takes or not filming.record(slot, order.id, str(film)):
                continue
            self._takes[slot] = _Take(order, film)
            self._next_slot = slot + 1
            return slot
        return None

    def _rotated(self) -> list[int]:
        return [(self._next_slot + offset) % self._slots for offset in range(self._slots)]

    def _fail(self, order: RecordingOrder, slot: int | None, reason: str) -> None:
        update = RecordingUpdate(
            state="failed", worker=self._worker, slot=slot, reason=reason[-4000:]
        )
        self._updates.put((order.id, update, None))

    def _with_film(self, update: RecordingUpdate, film: Path) -> RecordingUpdate:
        """Return the update with its film, or that there is none."""
        description = description_of(film)
        deadline = time.monotonic() + ENCODE_SECONDS
        while not description.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            filmed = msgspec.json.decode(description.read_bytes(), type=Filmed)
            content = film.read_bytes() if film.exists() else b""
        except OSError as error:
            return self._failed(update, f"the film was not finished: {error}")
        finally:
            film.unlink(missing_ok=True)
            description.unlink(missing_ok=True)
        if not content:
            return self._failed(update, filmed.note or "the film is empty")
        if len(content) > MOST_RECORDED_BYTES:
            return self._failed(update, f"the film has {len(content)} bytes")
        return msgspec.structs.replace(update, filmed=filmed, content=content)

    def _failed(self, update: RecordingUpdate, reason: str) -> RecordingUpdate:
        return RecordingUpdate(
            state="failed", worker=update.worker, slot=update.slot, reason=reason
        )

    def _tell(self, recording_id: str, update: RecordingUpdate) -> None:
        for attempt in range(TRIES):
            try:
                self._api.update_recording(recording_id, update)
            except (InvalidRequest, NotFound) as refusal:
                logger.warning("recording %s is not wanted: %s", recording_id, refusal)
                return
            except RolldeckError as failure:
                logger.info("recording %s not told, try %d: %s", recording_id, attempt, failure)
                time.sleep(1.0)
            else:
                return
