"""Tracker for MLflow: metrics, tags for events, and a JSON table for each sample of rollouts.

Repeated values change nothing: MLflow keeps one metric per name, step, time and value.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rolldeck.trackers.contract import (
    ROLLOUT_COLUMNS,
    TrackedBatch,
    TrackedRun,
    TrackerError,
    TrackerRefusedError,
    imported,
)

METRICS_AT_ONCE: Final = 1000
"""Maximum of MLflow's API."""
VALUE_CHARACTERS: Final = 500
"""Maximum length of a parameter that every MLflow store accepts."""
TAG_OF_KEY: Final = "rolldeck.run"
REFUSALS: Final = frozenset(
    {"INVALID_PARAMETER_VALUE", "PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_DOES_NOT_EXIST"}
)
END_STATES: Final = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowTracker:
    """A run of MLflow in the experiment that has the project's name."""

    def __init__(self, uri: str | None = None) -> None:
        """Configure the tracker without a connection.

        Args:
            uri: Tracking URI; without it MLFLOW_TRACKING_URI or MLflow's default.
        """
        # Longer outages are retried by the caller, which logs them.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        self._mlflow = imported("mlflow", "mlflow")
        self._client = self._mlflow.MlflowClient(tracking_uri=uri)
        self._run_id = ""

    def start(self, run: TrackedRun) -> None:
        """Create the run, or continue the one with the same key."""
        with self._errors():
            experiment = self._client.get_experiment_by_name(run.project)
            found = experiment and self._client.search_runs(
                [experiment.experiment_id], f"tags.`{TAG_OF_KEY}` = '{run.key}'", max_results=1
            )
            if found:
                self._run_id = found[0].info.run_id
                self._client.update_run(self._run_id, status="RUNNING")
                return
            place = (
                experiment.experiment_id
                if experiment
                else self._client.create_experiment(run.project)
            )
            tags = {TAG_OF_KEY: run.key} | ({"rolldeck.group": run.group} if run.group else {})
            self._run_id = self._client.create_run(place, tags=tags, run_name=run.name).info.run_id
            param = self._mlflow.entities.Param
            params = [
                param(name, str(value)[:VALUE_CHARACTERS]) for name, value in _flat(run.config)
            ]
            for begin in range(0, len(params), 100):
                self._client.log_batch(self._run_id, params=params[begin : begin + 100])

    def record(self, batch: TrackedBatch) -> None:
        """Store metrics and events, at most 1,000 in each request, then rollouts."""
        with self._errors():
            entities = self._mlflow.entities
            metrics = [
                entities.Metric(one.name, one.value, round(one.at * 1000), one.step)
                for one in batch.scalars
            ]
            for begin in range(0, len(metrics), METRICS_AT_ONCE):
                self._client.log_batch(
                    self._run_id, metrics=metrics[begin : begin + METRICS_AT_ONCE], synchronous=True
                )
            for event in batch.events:
                text = f"{event.kind} at step {event.step}: {event.message}"
                self._client.set_tag(self._run_id, f"rolldeck.event.{event.id}", text[:5000])
            if batch.rollouts:
                table = {
                    "columns": list(ROLLOUT_COLUMNS),
                    "data": [one.row() for one in batch.rollouts],
                }
                first = batch.rollouts[0]
                self._client.log_dict(self._run_id, table, f"rollouts/{first.mode}-{first.id}.json")

    def finish(self, status: str) -> None:
        """End the run as FINISHED, FAILED or KILLED."""
        end = END_STATES.get(status, "KILLED")
        with self._errors():
            self._client.set_terminated(self._run_id, status=end)

    def close(self) -> None:
        """Do nothing: each request is complete."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the errors of MLflow as those of a tracker."""
        try:
            yield
        except self._mlflow.exceptions.MlflowException as error:
            kind = TrackerRefusedError if error.error_code in REFUSALS else TrackerError
            raise kind.because("mlflow", str(error)) from error
        except OSError as error:
            raise TrackerError.because("mlflow", str(error)) from error


def _flat(config: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of nested objects under dotted names."""
    if not isinstance(config, dict) or not config:
        return [(prefix, config)] if prefix else []
    return [
        leaf
        for name, value in config.items()
        for leaf in _flat(value, f"{prefix}.{name}" if prefix else str(name))
    ]
