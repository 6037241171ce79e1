"""Tracker for Trackio: metrics, alerts for events, and a trace for each sampled rollout.

Trackio stores in a thread and reports failures as warnings. So each batch opens and finishes its
run, which waits for that thread, and a warning is an error.
"""

import io
import math
import warnings
from contextlib import redirect_stdout
from typing import Any, Final

from rolldeck.trackers.contract import (
    TrackedBatch,
    TrackedRun,
    TrackerError,
    errors_of,
    imported,
)

LOSSES: Final = ("could not", "failed", "dropped", "error")
"""Words of the warnings about values that were not stored."""
LEVELS: Final = {"info": "INFO", "warning": "WARN", "error": "ERROR"}


class TrackioTracker:
    """A run of Trackio in the folder TRACKIO_DIR, on a server or in a Space."""

    def __init__(self, server_url: str | None = None) -> None:
        """Configure the tracker without a connection.

        Args:
            server_url: Address of a Trackio server; without it Trackio's own settings apply.
        """
        self._trackio = imported("trackio", "trackio")
        self._server_url = server_url
        self._run: TrackedRun | None = None

    def start(self, run: TrackedRun) -> None:
        """Create the run, or continue the one with the same name."""
        self._run = run
        self.record(TrackedBatch())

    def record(self, batch: TrackedBatch) -> None:
        """Store the batch and wait for it."""
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(io.StringIO()),
            errors_of("trackio"),
        ):
            warnings.simplefilter("always")
            assert self._run is not None  # noqa: S101
            trackio, tracked = self._trackio, self._run
            run = trackio.init(
                project=tracked.project,
                name=tracked.name,
                group=tracked.group,
                server_url=self._server_url,
                config=dict(tracked.config) | {"rolldeck_run": tracked.key},
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
            for step, _, values in batch.rows():
                run.log(values, step=step)
            for event in batch.events:
                level = trackio.AlertLevel[LEVELS.get(event.level, "INFO")]
                run.alert(event.kind, event.message, level=level, step=event.step)
            by_step: dict[int, list[Any]] = {}
            for rollout in batch.rollouts:
                score = rollout.score
                about = {
                    "id": f"{rollout.id}.{rollout.sequence}",
                    "mode": rollout.mode,
                    "environment": rollout.environment,
                    "score": score if score is not None and math.isfinite(score) else None,
                    "length": rollout.length,
                }
                trace = trackio.Trace(messages=list(rollout.messages), metadata=about)
                by_step.setdefault(rollout.step, []).append(trace)
            for step, traces in by_step.items():
                run.log({"rollouts": traces}, step=step)
            run.finish()
        for warning in caught:
            text = str(warning.message)
            if any(word in text for word in LOSSES):
                raise TrackerError.because("trackio", text)

    def finish(self, status: str) -> None:
        """Do nothing: Trackio has no states of runs, and each batch finishes its run."""

    def close(self) -> None:
        """Do nothing: each batch is complete."""
