"""Trainer of a run: register, lease, publish and acknowledge.

The intended loop::

    with Trainer(url, "demo", token) as trainer:
        trainer.register()
        trainer.publish_weights(policy.state_dict(), step=0)
        for batch in trainer.batches():
            metrics = learn(batch.stack())
            trainer.publish_weights(policy.state_dict(), step=batch.head.policy_step + 1)
            trainer.log_metrics(metrics, step=batch.head.ordinal)

A batch is acknowledged when the next one is requested. A trainer that crashes before gets the same
batch, byte for byte, after it has registered again with ``resume=True``. ``batches(ahead=2)``
leases two more batches while one is trained on; they too come again after a crash, in order.
"""

import hashlib
import logging
import queue
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from numpy.typing import NDArray

from rolldeck import safetensors, weights_directory
from rolldeck.batches import Batch, FragmentView
from rolldeck.client import ENDED, Client
from rolldeck.closing import Closing
from rolldeck.errors import (
    ConflictError,
    InvalidAnswerError,
    InvalidMessageError,
    LeaseLostError,
    NotFoundError,
    TrainerNotRegisteredError,
)
from rolldeck.http import Call, Connection, download
from rolldeck.metrics import metrics_call
from rolldeck.safetensors import Content, array_of
from rolldeck.tokenizer_files import TokenizerClient
from rolldeck.wire import (
    BATCH_TYPE,
    WeightsManifest,
)

# Lease batches in a thread while the trainer trains.

POLL_SECONDS: Final = 1.0
"""Maximum wait of one request, and therefore of :meth:`Prefetcher.close`."""


class Prefetcher(Closing):
    """A window of leased batches, in the order in which they are to be acknowledged."""

    def __init__(self, trainer: "Trainer", *, ahead: int) -> None:
        """Start to lease batches.

        Args:
            trainer: A registered trainer.
            ahead: Number of batches to hold besides the one that is trained on.
        """
        self._trainer = trainer
        self._room = threading.Semaphore(ahead + 1)
        self._held: tuple[Batch, ...] = ()
        self._lock = threading.Lock()
        self._leased: queue.SimpleQueue[Batch | BaseException | None] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rolldeck-prefetch", daemon=True)
        self._thread.start()

    @property
    def held(self) -> tuple[Batch, ...]:
        """The batches that are leased and not yet released."""
        return self._held

    def next(self) -> Batch | None:
        """Return the next leased batch, and None once the run has ended.

        Raises:
            RolldeckError: The refusal of a request of the thread.
        """
        got = self._leased.get()
        if isinstance(got, BaseException):
            raise got
        return got

    def release(self, batch: Batch) -> None:
        """Make room for another batch, after an acknowledgement or a lost lease."""
        with self._lock:
            self._held = tuple(each for each in self._held if each is not batch)
        self._room.release()

    def close(self) -> None:
        """Stop leasing; batches that are still held will be served again."""
        self._is_closing.set()
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            while (batch := self._lease()) is not None:
                self._leased.put(batch)
            self._leased.put(None)
        except BaseException as error:  # noqa: BLE001 raised in the thread of the trainer
            self._leased.put(error)

    def _lease(self) -> Batch | None:
        """Return the next batch once there is room; None if the run has ended or at `close`."""
        self._room.acquire()
        while not self._is_closing.is_set():
            batch, has_ended = self._trainer.poll_batch(POLL_SECONDS, holding=self._held)
            if batch is not None:
                with self._lock:
                    self._held = (*self._held, batch)
                return batch
            if has_ended:
                return None
        return None


# Feed a training loop from a Rolldeck run and publish its weights.

__all__ = ["Batch", "FragmentView", "Trainer", "TrainerRegistration"]

logger = logging.getLogger("rolldeck")

MAX_WAIT_SECONDS: Final = 60.0
"""Maximum time for which the server holds one request for a batch."""
EARLY_PAUSE_SECONDS: Final = 0.5
MAX_HELD: Final = 16
"""Maximum number of batches that a trainer may hold."""
# Groups arrive in the codec in which they were pushed, without conversion.
STORED_BATCH: Final = f"{BATCH_TYPE}; groups=stored"
Weights = Mapping[str, NDArray[Any]]


class TrainerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The platform's response to a trainer's registration.

    Attributes:
        uuid: Id of the trainer, unique in the run.
        epoch: Training session; part of every version's name.
        policy_step: Newest published version of the epoch; -2 if there is none.
        batch_size: Items of one batch: fragments, or sequences of an outside run.
        config: The run's configuration; empty for an outside run.
        weights_directory: Folder for weights; empty if they are uploaded.
    """

    uuid: int | str
    epoch: int
    policy_step: int
    batch_size: int | None = None
    config: dict[str, Any] = {}
    weights_directory: str = ""


class Trainer(TokenizerClient):
    """The consumer of a run's batches and the publisher of its weights; not thread-safe."""

    def __init__(
        self,
        url: str | None = None,
        run: str = "",
        token: str | None = None,
        *,
        name: str = "trainer",
        rank: int = 0,
        world_size: int = 1,
        connection: Connection | None = None,
        weights_directory: str | Path | None = None,
    ) -> None:
        """Configure the trainer without sending a request.

        Args:
            url: URL of the platform, as ``http://host:8000``; ``ROLLDECK_URL`` by default.
            run: Name of the run.
            token: Token with the scope ``trainer`` for this run, the same for all ranks;
                ``ROLLDECK_TOKEN`` by default.
            name: Display name.
            rank: Rank of this process. Rank 0 registers, acknowledges and publishes; the others
                only request batches and report that they are done with them.
            world_size: Number of processes that share each batch; each gets its own shard.
            connection: Existing connection to use; `close` leaves it open.
            weights_directory: Path of the run's shared weights folder on this machine, if it
                differs from the platform's path; ignored for a run whose weights are uploaded.
        """
        super().__init__(url, run, token, connection)
        self.run = run
        self.name = name
        self.rank = rank
        self.world_size = world_size
        # Batches that this rank is done with, which rank 0 may still hold; empty in rank 0.
        self._done: tuple[str, ...] = ()
        # The id of the last batch, and the number of versions that were published before it.
        self._fetched = ("", 0)
        self._published = 0
        self.registration: TrainerRegistration | None = None
        self._weights_directory = weights_directory

    def register(
        self, *, resume: bool = False, batch_size: int | None = None, create_run: bool = False
    ) -> TrainerRegistration:
        """Register with the run.

        Args:
            create_run: Create and start an outside run of this name if there is none, which needs
                the rights of an operator.
            batch_size: Sequences of a batch, for an outside run that has no batch size yet; the
                response holds the active one.
            resume: Continue in the run's present epoch with the last published weights, and get
                the unacknowledged batch again. Otherwise weights restart at step 0: a run that
                already has versions opens a new epoch and drops earlier samples.

        Raises:
            NotFoundError: If there is no such run, without `create_run`.
            NotAllowedError: If the token may not register, or not create the run.
        """
        if create_run:
            self._create_run()
        call = Call(
            method="POST",
            path=f"{self._root}/trainers",
            json={"name": self.name, "resume": resume}
            | ({} if batch_size is None else {"batch_size": batch_size}),
        )
        self.registration = self._connection.decoded(call, TrainerRegistration)
        return self.registration

    def _create_run(self) -> None:
        runs = Client(connection=self._connection).runs
        try:
            runs.get(self.run)
        except NotFoundError:
            with suppress(ConflictError):  # created by another process meanwhile
                runs.create(self.run, kind="outside")

    def next_batch(
        self, wait_seconds: float = 30.0, *, holding: Sequence[Batch] = ()
    ) -> Batch | None:
        """Return a leased batch, or None if none was complete in time or the run has ended.

        Until it is acknowledged, the same batch is returned with a higher fence.

        Args:
            wait_seconds: Maximum wait for the queue to fill, without an upper limit.
            holding: Batches to hold besides the returned one, at most 15. Their leases are renewed.
                Acknowledge them in the order in which they were received.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            asked_at = time.monotonic()
            wait = min(max(0.0, deadline - asked_at), MAX_WAIT_SECONDS)
            batch, has_ended = self.poll_batch(wait, holding=holding)
            now = time.monotonic()
            if batch is not None or has_ended or now >= deadline:
                return batch
            # A server with too many waiters responds early; retrying at once would busy-loop.
            early = asked_at + wait - now
            time.sleep(min(max(0.0, early), deadline - now, EARLY_PAUSE_SECONDS))

    def poll_batch(
        self, wait_seconds: float, *, holding: Sequence[Batch] = ()
    ) -> tuple[Batch | None, bool]:
        """Send one request for a batch.

        Returns:
            The batch, or None if none was complete in time; and whether the run has ended.
        """
        body: dict[str, Any] = {"wait_seconds": wait_seconds}
        ids = [batch.head.id for batch in holding]
        if self.world_size > 1:
            ids += [done for done in reversed(self._done) if done not in ids]
            body |= {"rank": self.rank, "world_size": self.world_size}
            body["holding"] = ids[: MAX_HELD - 1]
        elif ids:
            body["holding"] = ids
        call = Call(
            method="POST",
            path=f"{self._root}/batches/next",
            json=body,
            accept=STORED_BATCH,
            wait_seconds=wait_seconds,
        )
        answer = self._connection.send(call)
        if answer.status == 204:
            return None, answer.headers.get("Rolldeck-Run-Status") in ENDED
        batch = Batch.decode(answer.data)
        if batch.head.id == self._fetched[0] and self._published > self._fetched[1]:
            logger.warning(
                "batch %d was fetched again after weights were published: acknowledge each batch "
                "with trainer.ack(batch), or iterate over trainer.batches()",
                batch.head.ordinal,
            )
        self._fetched = (batch.head.id, self._published)
        return batch, False

    def batch(self, batch_id: str) -> Batch:
        """Return the leased batch with this id again, whole, for any rank of this trainer."""
        path = f"{self._root}/batches/{quote(batch_id, safe='')}"
        answer = self._connection.send(Call(method="GET", path=path, accept=STORED_BATCH))
        return Batch.decode(answer.data)

    def batches(self, *, wait_seconds: float = 30.0, ahead: int = 0) -> Generator[Batch]:
        """Yield batches until the run has ended; acknowledge each when the next is requested.

        A batch that the loop leaves by an exception or `break` stays unacknowledged, as do those
        leased ahead. An acknowledgement after the lease expired is logged, and the loop continues:
        the batch's data may be served again.

        Args:
            wait_seconds: Interval between checks of the run's status while the queue is short.
            ahead: Batches that a thread leases while one is trained on, 0 to 15. Each adds up to
                one version to the staleness of the data.

        Raises:
            ValueError: If `ahead` is outside its limits.
        """
        if not 0 <= ahead < MAX_HELD:
            raise ValueError(f"ahead is {ahead}; it must be between 0 and {MAX_HELD - 1}")
        if ahead:
            with Prefetcher(self, ahead=ahead) as window:
                while (batch := window.next()) is not None:
                    yield batch
                    ack_or_log(self, batch)
                    window.release(batch)
            logger.info("run %s has ended: no more batches", self.run)
            return
        while True:
            batch = self.next_batch(wait_seconds)
            if batch is None:
                status = self.status()
                if status in ENDED:
                    logger.info("run %s is %s: no more batches", self.run, status)
                    return
                logger.info("run %s is %s: still waiting for a batch", self.run, status)
                continue
            yield batch
            ack_or_log(self, batch)

    def status(self) -> str:
        """Return the status of the run, such as ``running`` or ``completed``."""
        return str(_field(self._connection.json(Call(method="GET", path=self._root)), "status"))

    def ack(self, batch: Batch) -> int:
        """Acknowledge `batch`, so that the next one follows, and return the run's served steps.

        Only rank 0 sends the acknowledgement, once all ranks have trained on their shards; the
        others only record that they are done.

        Raises:
            LeaseLostError: If the lease expired and the batch was leased again.
            OutOfOrderError: If an earlier batch is still held.
        """
        if self.rank > 0:
            self._done = (*self._done, batch.head.id)[1 - MAX_HELD :]
            return batch.head.ordinal
        call = Call(
            method="POST",
            path=f"{self._root}/batches/{quote(batch.head.id, safe='')}/ack",
            json={"fence": batch.head.fence},
        )
        return int(_field(self._connection.json(call), "served_steps"))

    def publish_weights(self, state: Weights | bytes, *, step: int) -> WeightsManifest:
        """Publish `state` as version `step` of the present epoch, for the fleet to sample with.

        Args:
            state: Tensors by name (numpy arrays, or torch tensors on any device, including
                bfloat16 and 8-bit floats), or a whole safetensors file. Tensors of a GPU are
                copied to the CPU, in their own type.
            step: Greater than the step before; 0 for the initial weights.

        Raises:
            TrainerNotRegisteredError: Before `register`.
            StaleEpochError: If another trainer opened a newer epoch.
            ManifestMismatchError: If the content was damaged in transit.
            OSError: If the shared weights folder cannot be written to.
        """
        if self.registration is None:
            raise TrainerNotRegisteredError(
                status=0,
                code="trainer_not_registered",
                detail="call register() first: it returns the epoch of the weights",
            )
        if isinstance(state, bytes):
            content = state
        else:
            content = safetensors.encode({name: array_of(x) for name, x in state.items()})
        manifest = WeightsManifest(
            epoch=self.registration.epoch,
            step=step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            tensors=safetensors.specs(content),
        )
        form = {"manifest": ("manifest.json", msgspec.json.encode(manifest), "application/json")}
        folder = self._shared_folder()
        if folder is not None:
            # Written before the announcement, so that notified workers find it.
            weights_directory.write(folder, manifest, content)
        else:
            form["weights"] = ("weights.safetensors", content, "application/octet-stream")
        call = Call(method="POST", path=f"{self._root}/weights", files=form)
        published = self._connection.decoded(call, WeightsManifest)
        self._published += 1
        return published

    def current_weights(self) -> tuple[WeightsManifest, dict[str, NDArray[Any]]]:
        """Return the run's newest published version, for a trainer that resumes.

        Types that numpy lacks are returned as bits, see :mod:`rolldeck.safetensors`.

        Raises:
            NotFoundError: If no version was published.
        """
        newest = Call(method="GET", path=f"{self._root}/weights/current")
        manifest = self._connection.decoded(newest, WeightsManifest)
        folder = self._shared_folder()
        content: Content | None = weights_directory.read(folder, manifest) if folder else None
        if content is None:
            path = f"{self._root}/weights/{manifest.epoch}/{manifest.step}"
            size, sha256 = manifest.size_bytes, manifest.sha256
            try:
                content = download(self._connection, path, size_bytes=size, sha256=sha256)
            except InvalidMessageError as flaw:
                detail = str(flaw)
                raise InvalidAnswerError(
                    status=200, code="manifest_mismatch", detail=detail
                ) from flaw
        elif hashlib.sha256(content).hexdigest() != manifest.sha256:
            detail = f"version {manifest.step} in {folder} does not match its manifest"
            raise InvalidAnswerError(status=200, code="manifest_mismatch", detail=detail)
        return manifest, safetensors.decode(content)

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Store one value per name for the run's charts.

        Args:
            metrics: Numbers; one that is not finite becomes a counted gap in its chart.
            step: Train step, counted from 1.
        """
        if metrics:
            self._connection.send(metrics_call(f"{self._root}/metrics", metrics, step=step))

    def _shared_folder(self) -> Path | None:
        """Return the shared weights folder; None if weights are uploaded."""
        folder = self.registration.weights_directory if self.registration else ""
        return Path(self._weights_directory or folder) if folder else None


def ack_or_log(trainer: Trainer, batch: Batch) -> None:
    """Acknowledge a batch; log it if the lease expired, because its data may be served again."""
    try:
        trainer.ack(batch)
    except LeaseLostError as error:
        logger.warning("batch %d was not acknowledged: %s", batch.head.ordinal, error)


def _field(answer: object, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise InvalidAnswerError(
            status=200, code="bad_answer", detail=f"the response lacks {name!r}"
        )
    return answer[name]
