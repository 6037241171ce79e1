"""Feed a training loop from a Rolldeck run and hand its weights back.

The loop this is made for::

    with Trainer(url, "demo", token) as trainer:
        trainer.register()
        trainer.publish_weights(policy.state_dict(), step=0)
        for batch in trainer.batches():
            metrics = learn(batch.stack())
            trainer.publish_weights(policy.state_dict(), step=batch.head.policy_step + 1)
            trainer.log_metrics(metrics, step=batch.head.ordinal)

A batch is confirmed when the next one is asked for. A trainer that dies before gets the same
batch, byte for byte, after it has registered again with ``resume=True``.
"""

import hashlib
import logging
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from numpy.typing import NDArray

from rolldeck import safetensors, weights_directory
from rolldeck.batches import Batch, FragmentView
from rolldeck.closing import Closing
from rolldeck.downloads import download
from rolldeck.errors import (
    InvalidAnswer,
    LeaseLost,
    TrainerNotRegistered,
)
from rolldeck.http import Call, Connection
from rolldeck.safetensors import Content
from rolldeck.tensors import array_of
from rolldeck.wire import BATCH_TYPE, InvalidMessage, WeightsManifest

__all__ = ["Batch", "FragmentView", "Trainer", "TrainerRegistration"]

logger = logging.getLogger("rolldeck")

MAX_WAIT_SECONDS: Final = 60.0
"""The longest that the server holds one request for a batch."""
EARLY_PAUSE_SECONDS: Final = 0.5
ENDED: Final = frozenset({"completed", "stopped", "failed"})
# Groups come in the codec in which they were pushed: nobody decodes them on the way.
STORED_BATCH: Final = f"{BATCH_TYPE}; groups=stored"
Weights = Mapping[str, NDArray[Any]]
T = TypeVar("T")


class TrainerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform tells a trainer that has registered.

    Attributes:
        uuid: The trainer, among those of the run.
        epoch: Training session; part of every version's name.
        policy_step: Newest published version of the epoch; -2 if there is none.
        batch_size: Items of one batch: fragments, or sequences of an outside run.
        config: The run's configuration; empty for an outside run.
        weights_directory: Where weights are written; empty if they are uploaded.
    """

    uuid: int | str
    epoch: int
    policy_step: int
    batch_size: int | None = None
    config: dict[str, Any] = {}
    weights_directory: str = ""


class Trainer(Closing):
    """The consumer of a run's batches and the publisher of its weights; not for many threads."""

    def __init__(
        self,
        url: str,
        run: str,
        token: str | None = None,
        *,
        name: str = "trainer",
        rank: int = 0,
        world_size: int = 1,
        connection: Connection | None = None,
        weights_directory: str | Path | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            url: The platform, as ``http://host:8000``.
            run: Name of the run.
            token: With the scope ``trainer``, for this run; the same for all ranks.
            name: Shown to people.
            rank: Of this process. Rank 0 registers, confirms and publishes; the others only ask
                for batches and say when they are done with them.
            world_size: Processes that share each batch; every one gets its own shard.
            connection: Used instead of one of its own, which `close` would end.
            weights_directory: Where this machine has the run's shared folder of weights, if
                not where the platform says; without effect on a run whose weights are uploaded.
        """
        self.run = run
        self.name = name
        self.rank = rank
        self.world_size = world_size
        self._done_ordinal = 0
        self.registration: TrainerRegistration | None = None
        self._owns_connection = connection is None
        self._connection = connection or Connection(url, token)
        self._weights_directory = weights_directory
        self._root = f"/api/runs/{quote(run, safe='')}"

    def close(self) -> None:
        """Close the sockets; an unconfirmed batch will be served again."""
        if self._owns_connection:
            self._connection.close()

    def register(
        self, *, resume: bool = False, batch_size: int | None = None
    ) -> TrainerRegistration:
        """Join the run and return what it is.

        Args:
            batch_size: Sequences of a batch, for an outside run that has no batch size yet; the
                answer holds the one in force.
            resume: Go on in the run's present epoch with the weights published last, and get
                the unconfirmed batch again. Otherwise weights start anew from step 0: a run
                that had some opens a new epoch and drops what was sampled before.
        """
        call = Call(
            method="POST",
            path=f"{self._root}/trainers",
            json={"name": self.name, "resume": resume}
            | ({} if batch_size is None else {"batch_size": batch_size}),
        )
        self.registration = _converted(self._connection.json(call), TrainerRegistration)
        return self.registration

    def next_batch(self, wait_seconds: float = 30.0) -> Batch | None:
        """Return a leased batch, or None if none was complete in time or the run is over.

        Until it is confirmed the same batch is handed out, with a higher fence.

        Args:
            wait_seconds: How long to wait for the queue to fill, any length.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            asked_at = time.monotonic()
            wait = min(max(0.0, deadline - asked_at), MAX_WAIT_SECONDS)
            call = Call(
                method="POST",
                path=f"{self._root}/batches/next",
                json={"wait_seconds": wait, **self._share()},
                accept=STORED_BATCH,
                wait_seconds=wait,
            )
            answer = self._connection.send(call)
            if answer.status_code != 204:
                return Batch.decode(answer.content)
            now = time.monotonic()
            if now >= deadline or answer.headers.get("Rolldeck-Run-Status") in ENDED:
                return None
            # A server with too many waiters answers early: asking at once would be a busy loop.
            early = asked_at + wait - now
            time.sleep(min(max(0.0, early), deadline - now, EARLY_PAUSE_SECONDS))

    def _share(self) -> dict[str, int]:
        if self.world_size == 1:
            return {}
        return {"rank": self.rank, "world_size": self.world_size, "after": self._done_ordinal}

    def batch(self, batch_id: str) -> Batch:
        """Return the leased batch of that id once more, whole, for any rank of this trainer."""
        path = f"{self._root}/batches/{quote(batch_id, safe='')}"
        answer = self._connection.send(Call(method="GET", path=path, accept=STORED_BATCH))
        return Batch.decode(answer.content)

    def batches(self, *, wait_seconds: float = 30.0) -> Iterator[Batch]:
        """Yield batches until the run has ended, confirming each when the next is asked for.

        A batch that the loop leaves by an exception or `break` stays unconfirmed. A confirmation
        that comes after the lease ran out is logged, and the loop goes on: its data may be served
        again.

        Args:
            wait_seconds: Between two looks at the run's status while the queue stays short.
        """
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
            try:
                self.ack(batch)
            except LeaseLost as error:
                logger.warning("batch %d was not confirmed: %s", batch.head.ordinal, error)

    def status(self) -> str:
        """Return where the run stands, such as ``running`` or ``completed``."""
        return str(_field(self._connection.json(Call(method="GET", path=self._root)), "status"))

    def ack(self, batch: Batch) -> int:
        """Confirm `batch`, so that the next one may come, and return the run's served steps.

        Only rank 0 confirms, and does so when all ranks have trained on their shards; the others
        only remember that they are done.

        Raises:
            LeaseLost: If the lease ran out and the batch was leased anew.
        """
        self._done_ordinal = batch.head.ordinal
        if self.rank > 0:
            return batch.head.ordinal
        call = Call(
            method="POST",
            path=f"{self._root}/batches/{quote(batch.head.id, safe='')}/ack",
            json={"fence": batch.head.fence},
        )
        return int(_field(self._connection.json(call), "served_steps"))

    def publish_weights(self, state: Weights | bytes, *, step: int) -> WeightsManifest:
        """Make `state` version `step` of the present epoch, which the fleet then samples with.

        Args:
            state: Tensors by name (numpy arrays, or torch tensors on the CPU, bfloat16 too), or
                a whole safetensors file.
            step: Greater than the step before; 0 for the weights training starts with.

        Raises:
            TrainerNotRegistered: Before `register`.
            StaleEpoch: If another trainer opened a newer epoch.
            ManifestMismatch: If the bytes were damaged on their way.
            OSError: If weights travel through a directory that cannot be written to.
        """
        content = state if isinstance(state, bytes) else _encoded(state)
        manifest = WeightsManifest(
            epoch=self._registered().epoch,
            step=step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            tensors=safetensors.specs(content),
        )
        form = {"manifest": ("manifest.json", msgspec.json.encode(manifest), "application/json")}
        folder = self._shared_folder()
        if folder is not None:
            # Before it is announced: a fleet that hears of it finds it.
            weights_directory.write(folder, manifest, content)
        else:
            form["weights"] = ("weights.safetensors", content, "application/octet-stream")
        call = Call(method="POST", path=f"{self._root}/weights", files=form)
        return _converted(self._connection.json(call), WeightsManifest)

    def current_weights(self) -> tuple[WeightsManifest, dict[str, NDArray[Any]]]:
        """Return the run's newest published version, for a trainer that resumes.

        Numbers that numpy lacks come as their bits: see :mod:`rolldeck.safetensors`.

        Raises:
            NotFound: If none was published.
        """
        raw = self._connection.json(Call(method="GET", path=f"{self._root}/weights/current"))
        manifest = _converted(raw, WeightsManifest)
        return manifest, safetensors.decode(self._content_of(manifest))

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Store one value per name for the run's charts.

        Args:
            metrics: Numbers; one that is not finite is a gap in its chart, counted.
            step: Train step, counted from 1.
        """
        samples = [
            {"name": name, "step": step, "value": _written(float(value))}
            for name, value in metrics.items()
        ]
        if not samples:
            return
        path = f"{self._root}/metrics"
        self._connection.send(Call(method="POST", path=path, json={"samples": samples}))

    def _content_of(self, manifest: WeightsManifest) -> Content:
        """Return the checked file of a version."""
        folder = self._shared_folder()
        content = weights_directory.read(folder, manifest) if folder is not None else None
        if content is None:
            return self._downloaded(manifest)
        if hashlib.sha256(content).hexdigest() != manifest.sha256:
            detail = f"version {manifest.step} in {folder} is not what its manifest says"
            raise InvalidAnswer(status=200, code="manifest_mismatch", detail=detail)
        return content

    def _downloaded(self, manifest: WeightsManifest) -> memoryview:
        path = f"{self._root}/weights/{manifest.epoch}/{manifest.step}"
        size, sha256 = manifest.size_bytes, manifest.sha256
        try:
            return download(self._connection, path, size_bytes=size, sha256=sha256)
        except InvalidMessage as flaw:
            raise InvalidAnswer(status=200, code="manifest_mismatch", detail=str(flaw)) from flaw

    def _shared_folder(self) -> Path | None:
        """Return the folder through which weights travel; None if they are uploaded."""
        told = self.registration.weights_directory if self.registration else ""
        return Path(self._weights_directory or told) if told else None

    def _registered(self) -> TrainerRegistration:
        if self.registration is None:
            raise TrainerNotRegistered(
                status=0,
                code="trainer_not_registered",
                detail="register() gives the epoch that weights belong to; call it first",
            )
        return self.registration


def _encoded(state: Mapping[str, Any]) -> bytes:
    return safetensors.encode({name: array_of(tensor) for name, tensor in state.items()})


def _written(value: float) -> float | str:
    """Return the number, or its name where JSON has no sign for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _field(answer: object, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise InvalidAnswer(status=200, code="bad_answer", detail=f"the answer lacks {name!r}")
    return answer[name]


def _converted(raw: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InvalidAnswer(status=200, code="bad_answer", detail=str(error)) from error
