"""Tracker for Weights & Biases: history, tables of rollouts, and the mode that WANDB_MODE names.

W&B writes what it gets to a file of the run, from which it uploads in the background and through
outages. The file is flushed every half second, and a batch is stored after a flush.
"""

import logging
import time
from contextlib import suppress
from typing import Any, Final

from rolldeck.trackers.contract import (
    ROLLOUT_COLUMNS,
    TrackedBatch,
    TrackedRun,
    TrackerError,
    TrackerRefusedError,
    errors_of,
    imported,
)

logger = logging.getLogger("rolldeck")

FLUSH_SECONDS: Final = 0.5
STEP: Final = "train_step"
"""Axis of all charts. W&B's own step only grows, and a trainer may return to an earlier one."""


class WandbTracker:
    """A run of W&B with the group and the project of the registration."""

    def __init__(self) -> None:
        """Configure the tracker without a connection."""
        self._wandb = imported("wandb", "wandb")
        self._run: Any = None

    def start(self, run: TrackedRun) -> None:
        """Create the run, or continue it; an offline run gets a further folder."""
        try:
            settings = self._wandb.Settings(
                console="off",
                disable_git=True,
                disable_code=True,
                silent=True,
                x_disable_stats=True,
                x_transaction_log_flush_interval=FLUSH_SECONDS,
            )
            self._run = self._wandb.init(
                project=run.project,
                group=run.group,
                name=run.name,
                id=run.key,
                resume="allow",
                config=dict(run.config),
                settings=settings,
            )
        except self._wandb.errors.CommError as error:
            raise TrackerError.because("wandb", str(error)) from error
        except (self._wandb.errors.Error, ValueError) as error:
            raise TrackerRefusedError.because("wandb", str(error)) from error
        except Exception as error:
            raise TrackerError.because("wandb", f"{type(error).__name__} {error}") from error
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)

    def record(self, batch: TrackedBatch) -> None:
        """Write history rows, events and a table of rollouts, and wait for the flush."""
        with errors_of("wandb"):
            for step, at, values in batch.rows():
                self._run.log({**values, STEP: step, "rolldeck/at": at})
            for event in batch.events:
                about = {"kind": event.kind, "message": event.message, "level": event.level}
                row = {f"rolldeck/event/{name}": value for name, value in about.items()}
                self._run.log({**row, STEP: event.step, "rolldeck/at": event.at})
            if batch.rollouts:
                data = [one.row() for one in batch.rollouts]
                table = self._wandb.Table(columns=list(ROLLOUT_COLUMNS), data=data)
                newest = max(one.step for one in batch.rollouts)
                self._run.log({"rolldeck/rollouts": table, STEP: newest})
            # W&B's process answers this request after all earlier ones.
            self._run.status()
            time.sleep(2 * FLUSH_SECONDS)

    def finish(self, status: str) -> None:
        """End the run; a failed run gets the exit code 1."""
        if self._run is None:
            return
        try:
            self._run.finish(exit_code=1 if status == "failed" else 0)
        except Exception as error:
            raise TrackerError.because("wandb", f"{type(error).__name__} {error}") from error
        self._run = None

    def close(self) -> None:
        """End the run; it can be continued."""
        try:
            self.finish("stopped")
        except TrackerError as error:
            logger.warning("wandb: the run was not ended: %s", error)
            self._run = None
            with suppress(Exception):  # it complains again about the lost process, then forgets it
                self._wandb.teardown()
