"""Command `rolldeck run track`: forward a run's metrics, events and rollouts to a tracker."""

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any, Final

import click

from rolldeck.commands.base import data_command, run_argument
from rolldeck.http import Connection
from rolldeck.trackers.contract import Tracker
from rolldeck.trackers.following import FollowOptions, follow
from rolldeck.trackers.source import RunSource

Row = dict[str, Any]
TRACKERS: Final = ("mlflow", "tensorboard", "trackio", "wandb")
PATH: Final = click.Path(path_type=Path)
TAKEN_BY: Final = {"--tracker-url": ("mlflow", "trackio"), "--logdir": ("tensorboard",)}
"""Trackers that an option applies to."""


def _state_folder() -> Path:
    state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state_home) / "rolldeck"


@click.option("--to", required=True, type=click.Choice(TRACKERS), help="The tracker.")
@click.option("--tracker-url", metavar="URL", help="Of an MLflow or Trackio server.")
@click.option("--logdir", type=PATH, metavar="DIR", help="Of TensorBoard (default tensorboard).")
@click.option("--project", help="Instead of the project that the trainer registered.")
@click.option("--group", help="Instead of the group that the trainer registered.")
@click.option(
    "--rollouts",
    type=click.IntRange(0, 50),
    default=4,
    metavar="N",
    help="Groups or episode reports per minute to send as samples (default 4).",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Metrics to leave out, such as 'rolldeck/resources/*'; repeatable.",
)
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    metavar="SECONDS",
    help="Wait between two readings of the run (default 10).",
)
@click.option(
    "--state",
    "folder",
    type=PATH,
    default=_state_folder,
    metavar="DIR",
    help="Folder of the positions (default ~/.local/state/rolldeck).",
)
def track(
    connection: Connection,
    run: str,
    to: str,
    tracker_url: str | None,
    logdir: Path | None,
    project: str | None,
    group: str | None,
    rollouts: int,
    exclude: tuple[str, ...],
    every: float,
    folder: Path,
) -> object:
    """Send metrics, events and sampled rollouts of a run to a tracker.

    The command ends when the run has ended, or with SIGINT or SIGTERM.
    """
    logging.basicConfig(format="%(asctime)s %(message)s")
    given = {"--tracker-url": tracker_url, "--logdir": logdir}
    for option, trackers in TAKEN_BY.items():
        if given[option] is not None and to not in trackers:
            raise click.UsageError(f"{option} applies to {' and '.join(trackers)}, not to {to}")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    options = FollowOptions(
        state=folder,
        tracker=to,
        project=project,
        group=group,
        every_seconds=every,
        rollouts=rollouts,
    )
    source = RunSource(connection, run, [*exclude])
    totals = follow(source, lambda: _tracker(to, tracker_url, logdir), options, stopping)
    return {field: getattr(totals, field) for field in totals.__slots__}


def shown(totals: Row) -> str:
    """Format the totals as one line."""
    counts = ", ".join(f"{totals[name]:,} {name}" for name in ("scalars", "events", "rollouts"))
    return f"{totals['run']} is {totals['status']}; sent {counts}"


def _tracker(to: str, url: str | None, logdir: Path | None) -> Tracker:
    """Return the tracker; the modules of the others are not imported."""
    if to == "mlflow":
        from rolldeck.trackers.mlflow_tracker import MlflowTracker

        return MlflowTracker(url)
    if to == "tensorboard":
        from rolldeck.trackers.tensorboard_tracker import TensorBoardTracker

        return TensorBoardTracker(logdir or Path("tensorboard"))
    if to == "trackio":
        from rolldeck.trackers.trackio_tracker import TrackioTracker

        return TrackioTracker(url)
    from rolldeck.trackers.wandb_tracker import WandbTracker

    return WandbTracker()


track_run: Final = data_command(None, "track", shown)(run_argument(track))
