"""Tracker for TensorBoard: event files in a folder, written without torch or TensorFlow."""

import json
from pathlib import Path
from typing import Any

from rolldeck.trackers.contract import TrackedBatch, TrackedRun, TrackerError, imported


class TensorBoardTracker:
    """Event files in ``DIR/PROJECT/GROUP/NAME``; each start of the tracker adds one file."""

    def __init__(self, folder: Path) -> None:
        """Configure the tracker without writing a file."""
        # Without this module, TensorBoard uses its own reader and writer of files.
        imported("tensorboard.compat", "tensorboard")
        self._files = imported("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._event = imported("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        summary = imported("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._summary, self._metadata = summary.Summary, summary.SummaryMetadata
        self._tensors = imported("tensorboard.util.tensor_util", "tensorboard")
        self._folder = folder
        self._writer: Any = None

    def start(self, run: TrackedRun) -> None:
        """Create the folder and an event file with the configuration as text."""
        parts = [run.project, *([run.group] if run.group else []), run.name]
        folder = self._folder.joinpath(*(part.replace("/", "_") for part in parts))
        try:
            self._writer = self._files.EventFileWriter(str(folder))
        except OSError as error:
            raise TrackerError.because("tensorboard", str(error)) from error
        self._add(self._text("config", json.dumps(run.config, indent=2)), step=0, at=0.0)
        self._flush()

    def record(self, batch: TrackedBatch) -> None:
        """Write scalars, events and rollouts as text, and flush the file."""
        try:
            for one in batch.scalars:
                value = self._summary.Value(tag=one.name, simple_value=one.value)
                self._add(value, step=one.step, at=one.at)
            for event in batch.events:
                text = f"**{event.kind}** {event.message}"
                self._add(self._text("rolldeck/events", text), step=event.step, at=event.at)
            for rollout in batch.rollouts:
                about = f"{rollout.environment}, {rollout.mode} {rollout.id}.{rollout.sequence}"
                length = "" if rollout.length is None else f", length {rollout.length:g}"
                text = f"{about}, score {rollout.score}{length}\n\n{rollout.text()}"
                self._add(self._text("rolldeck/rollouts", text), step=rollout.step, at=rollout.at)
            self._flush()
        except OSError as error:
            raise TrackerError.because("tensorboard", str(error)) from error

    def finish(self, status: str) -> None:
        """Close the file; TensorBoard has no states of runs."""
        del status
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, value: Any, *, step: int, at: float) -> None:
        event = self._event(wall_time=at, step=step, summary=self._summary(value=[value]))
        self._writer.add_event(event)

    def _text(self, tag: str, text: str) -> Any:
        plugin = self._metadata.PluginData(plugin_name="text")
        return self._summary.Value(
            tag=tag,
            metadata=self._metadata(plugin_data=plugin),
            tensor=self._tensors.make_tensor_proto([text.encode()]),
        )

    def _flush(self) -> None:
        self._writer.flush()
