"""Command `rolldeck track`: forward a run's metrics, events and rollouts to a tracker."""

import argparse
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any, Final

from rolldeck.errors import InvalidRequestError
from rolldeck.http import Connection
from rolldeck.trackers.contract import Tracker
from rolldeck.trackers.following import FollowOptions, follow
from rolldeck.trackers.source import RunSource

Row = dict[str, Any]
TRACKERS: Final = ("mlflow", "tensorboard", "trackio", "wandb")
TAKEN_BY: Final = {"--tracker-url": ("mlflow", "trackio"), "--logdir": ("tensorboard",)}
"""Trackers that an option applies to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", required=True, choices=TRACKERS, help="the tracker")
    parser.add_argument("--tracker-url", metavar="URL", help="of an MLflow or Trackio server")
    parser.add_argument(
        "--logdir", type=Path, metavar="DIR", help="of TensorBoard (default tensorboard)"
    )
    parser.add_argument("--project", help="instead of the project that the trainer registered")
    parser.add_argument("--group", help="instead of the group that the trainer registered")
    parser.add_argument(
        "--rollouts",
        type=_count,
        default=4,
        metavar="N",
        help="groups or episode reports per minute to send as samples (default 4)",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="metrics to leave out, such as 'rolldeck/resources/*'; may be repeated",
    )
    parser.add_argument(
        "--every",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="wait between two readings of the run (default 10)",
    )
    state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    parser.add_argument(
        "--state",
        type=Path,
        default=Path(state_home) / "rolldeck",
        metavar="DIR",
        help="folder of the positions (default %(default)s)",
    )


def call(connection: Connection, args: argparse.Namespace) -> object:
    """Follow the run until it has ended, or until SIGINT or SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    given = {"--tracker-url": args.tracker_url, "--logdir": args.logdir}
    for option, trackers in TAKEN_BY.items():
        if given[option] is not None and args.to not in trackers:
            detail = f"{option} applies to {' and '.join(trackers)}, not to {args.to}"
            raise InvalidRequestError(status=0, code="misused", detail=detail)
    options = FollowOptions(
        state=args.state,
        tracker=args.to,
        project=args.project,
        group=args.group,
        every_seconds=args.every,
        rollouts=args.rollouts,
    )
    source = RunSource(connection, args.run, args.exclude)
    totals = follow(source, lambda: _tracker(args), options, stopping)
    return {field: getattr(totals, field) for field in totals.__slots__}


def shown(totals: Row) -> str:
    """Format the totals as one line."""
    counts = ", ".join(f"{totals[name]:,} {name}" for name in ("scalars", "events", "rollouts"))
    return f"{totals['run']} is {totals['status']}; sent {counts}"


def _tracker(args: argparse.Namespace) -> Tracker:
    """Return the tracker; the modules of the others are not imported."""
    if args.to == "mlflow":
        from rolldeck.trackers.mlflow_tracker import MlflowTracker

        return MlflowTracker(args.tracker_url)
    if args.to == "tensorboard":
        from rolldeck.trackers.tensorboard_tracker import TensorBoardTracker

        return TensorBoardTracker(args.logdir or Path("tensorboard"))
    if args.to == "trackio":
        from rolldeck.trackers.trackio_tracker import TrackioTracker

        return TrackioTracker(args.tracker_url)
    from rolldeck.trackers.wandb_tracker import WandbTracker

    return WandbTracker()


def _count(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 50:
        raise argparse.ArgumentTypeError("must be 0 to 50")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("must be 0.1 to 3600 seconds")
    return value
