"""Groups of a run for `AsyncGRPOTrainer` of TRL 1.16, which is experimental.

::

    rollouts = AsyncRollouts(Trainer(url, "words", token))
    AsyncGRPOTrainer(
        model,
        args=config,
        processing_class=tokenizer,
        train_dataset=placeholder,
        rollout_worker=rollouts,
        weight_transfer=rollouts,
    ).train()

TRL's loss contains the ratio of the trained model to the sampling one, with the log probabilities
of the inference server (`RolloutSample.old_log_probs`).
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from torch import Tensor
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from rolldeck.batches import Batch
from rolldeck.integrations.token_rows import token_rows
from rolldeck.integrations.trl import RunEndedError, check_language
from rolldeck.trainer import MAX_HELD, Trainer, ack_or_log
from rolldeck.training.advantages import RULES, Rule

__all__ = ["AsyncRollouts"]

POLL_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05
AHEAD: Final = 2
"""Weight syncs after which TRL has trained on all samples that it had received.

Its data loader holds one micro-batch and one sample besides those that were trained on. The sample
can be the first of the micro-batch after the next one.
"""


@dataclass(slots=True)
class _Held:
    """A leased batch, and the number of all samples up to its last one."""

    batch: Batch
    end: int


class AsyncRollouts:
    """`rollout_worker` and `weight_transfer` of `AsyncGRPOTrainer`, which need each other.

    A thread leases batches while TRL trains. A batch is acknowledged at the second weight sync
    after TRL has received its last sample: by then, TRL has trained on it and published the result.
    Batches that are not acknowledged at the end of the training are served again.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        resume: bool = False,
        batch_size: int | None = None,
        rule: Rule = "grpo",
        temperature: float = 1.0,
    ) -> None:
        """Configure the rollouts without sending a request.

        Args:
            trainer: Unregistered trainer of the run. TRL registers it when its training begins.
            resume: Continue in the run's present epoch and get the unacknowledged batches again.
                The model that TRL has loaded becomes the next version.
            batch_size: Sequences of a batch, for an outside run that has no batch size yet.
            rule: Advantage of a sequence in its group, if the group contains none.
            temperature: TRL's `temperature`, which must be that of the run's lessons, and of the
                sequences of outside environments that state one.
        """
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self._trainer = trainer
        self._resume = resume
        self._batch_size = batch_size
        self._rule = rule
        self._temperature = temperature
        self._is_registered = False
        self._step = -1
        self._first_step = 0
        self._version = 0
        self._queued = 0
        self._groups = 0
        self._held: tuple[_Held, ...] = ()
        self._lock = threading.Lock()
        self._received: deque[int] = deque()
        self._failure: BaseException | None = None
        self._has_ended = False
        self._active_at = time.monotonic()
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None

    # Weight transfer.

    def init_weight_transfer(self) -> None:
        """Register with the run.

        Raises:
            RolldeckError: The refusal of the registration.
            ValueError: If the lessons of the run do not fit; the text begins with the field.
        """
        registration = self._trainer.register(resume=self._resume, batch_size=self._batch_size)
        check_language(registration, temperature=self._temperature)
        resumes = self._resume and registration.policy_step >= 0
        self._is_registered = True
        self._step = registration.policy_step if resumes else -1
        self._first_step = self._step + 1

    def pause(self) -> None:
        """Do nothing: workers adopt new weights between two tokens."""

    def send_weights(self, iterator: Iterator[tuple[str, Tensor]]) -> None:
        """Publish the weights as the next version.

        Raises:
            RolldeckError: The refusal of the publication.
        """
        tensors = {name: tensor.cpu() for name, tensor in iterator}
        self._trainer.publish_weights(tensors, step=self._step + 1)
        self._step += 1

    def resume(self) -> None:
        """Do nothing: workers adopt new weights between two tokens."""

    def destroy(self) -> None:
        """Do nothing: `stop` ends the thread."""

    # Rollout worker.

    def start(self) -> None:
        """Start to lease batches.

        Raises:
            ValueError: If the same object is not the `weight_transfer`.
        """
        if not self._is_registered:
            raise ValueError("weight_transfer: must be the same object as rollout_worker")
        self._thread = threading.Thread(target=self._run, name="rolldeck-trl", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop leasing; unacknowledged batches will be served again."""
        self._is_closing.set()
        if self._thread is not None:
            self._thread.join()

    def update_model_version(self, model_version: int) -> None:
        """Acknowledge the batches that the weights before the last ones contain.

        Args:
            model_version: TRL's number of the version that was just published, from 1.
        """
        self._version = model_version
        self._received.append(self._queued - self.rollout_buffer.qsize())
        if len(self._received) <= AHEAD:
            return
        trained = self._received.popleft()
        for held in self._held:
            if held.end > trained:
                return
            ack_or_log(self._trainer, held.batch)
            with self._lock:
                self._held = self._held[1:]

    def check_health(self, stale_after_s: float) -> None:
        """Check the thread; TRL calls this while it waits for samples.

        Raises:
            RuntimeError: If the thread failed or hangs, or no further batch can arrive.
        """
        run = self._trainer.run
        if self._failure is not None:
            raise RuntimeError(f"run {run}: {self._failure}") from self._failure
        if self._has_ended:
            raise RunEndedError(f"run {run} has ended: no more batches")
        if len(self._held) >= MAX_HELD and self.rollout_buffer.empty():
            raise RuntimeError(
                f"batch_size: TRL holds {MAX_HELD} batches of run {run} and requests more for one "
                "weight sync; use larger batches, or lower weight_sync_steps"
            )
        age = time.monotonic() - self._active_at
        if age > stale_after_s:
            raise RuntimeError(f"run {run}: no response for {age:.0f} s, limit {stale_after_s} s")

    def _run(self) -> None:
        try:
            while not self._is_closing.is_set():
                self._active_at = time.monotonic()
                if len(self._held) >= MAX_HELD or self.rollout_buffer.qsize() > 0:
                    self._is_closing.wait(PAUSE_SECONDS)
                    continue
                holding = [held.batch for held in self._held]
                batch, self._has_ended = self._trainer.poll_batch(POLL_SECONDS, holding=holding)
                if batch is not None:
                    samples = self._samples(batch)
                    with self._lock:
                        self._held = (*self._held, _Held(batch, self._queued + len(samples)))
                    for sample in samples:
                        self.rollout_buffer.put(sample)
                        # Afterwards, so that no sample counts as received too early.
                        self._queued += 1
                elif self._has_ended:
                    return
        except BaseException as error:  # noqa: BLE001 raised in TRL's thread by check_health
            self._failure = error

    def _samples(self, batch: Batch) -> list[RolloutSample]:
        rows = token_rows(batch, temperature=self._temperature)
        samples = []
        for place in range(len(batch)):
            group = [row for row in rows if row.group == place]
            scores = np.array([row.score for row in group])
            computed = RULES[self._rule](scores)
            for row, advantage in zip(group, computed, strict=True):
                if not row.trained.any():
                    continue
                own = advantage if row.advantage is None else row.advantage
                # TRL counts the first version of a training as 1.
                step = row.policy_step
                version = self._version if step is None else step - self._first_step + 1
                values: dict[str, Any] = {
                    "prompt": [],
                    "completion": [],
                    "input_ids": row.tokens,
                    "completion_mask": row.trained.astype(np.int64),
                    "old_log_probs": row.logprobs,
                    "advantage": float(own),
                    "model_version": version,
                    "group_id": self._groups,
                    "metrics": {"reward": row.score, "reward_std": float(scores.std())},
                    "enqueued_at": time.time(),
                }
                samples.append(RolloutSample(**values))
            self._groups += 1
        return samples
