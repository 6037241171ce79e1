"""Follow a run and give its values to a tracker, until the run has ended.

The position advances after the tracker has stored a batch. A tracker or a platform that does not
answer delays the batch; the run does not notice.
"""

import hashlib
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rolldeck.client import ENDED
from rolldeck.errors import RolldeckError
from rolldeck.http import Backoff
from rolldeck.trackers.contract import TrackedRun, Tracker, TrackerError
from rolldeck.trackers.source import SCALARS_AT_ONCE, CursorFile, RunSource

logger = logging.getLogger("rolldeck")

SECONDS_BETWEEN_ROLLOUTS: Final = 60.0
RETRIED: Final = frozenset({0, 429, 500, 502, 503, 504})
"""Statuses of errors that pass: no answer, overload, a restart."""
NOT_RETRIED: Final = frozenset({"cursor_in_use", "invalid_cursor", "tracker_refused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Names and pace of a tracker.

    Attributes:
        state: Folder of the positions.
        tracker: Name of the tracker, part of the position's file name.
        project: Project in the tracker instead of the registered one.
        group: Group in the tracker instead of the registered one.
        every_seconds: Wait between two looks at the run.
        rollouts: Number of sampled groups, or reports of episodes, per minute.
        last_seconds: Time after the end of a run in which the platform measures it once more.
        backoff: Waits while the tracker or the platform fails.
    """

    state: Path
    tracker: str
    project: str | None = None
    group: str | None = None
    every_seconds: float = 10.0
    rollouts: int = 4
    last_seconds: float = 15.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first_seconds=1, most_seconds=60))


@dataclass(slots=True, kw_only=True)
class Totals:
    """Numbers of values that this process gave to the tracker."""

    run: str
    status: str = ""
    scalars: int = 0
    events: int = 0
    rollouts: int = 0


def follow(
    source: RunSource,
    make_tracker: Callable[[], Tracker],
    options: FollowOptions,
    stopping: threading.Event,
) -> Totals:
    """Give a run's values to a tracker until the run has ended or `stopping` is set.

    Raises:
        TrackerRefusedError: If the tracker refuses a value or its credentials; nothing is lost.
        RolldeckError: If the run does not exist or may not be read, or the position is invalid.
    """
    # A wrong name or token is refused before the tracker opens a connection or a folder.
    run = source.run()
    return _Following(source, make_tracker(), options, stopping).follow(run)


class _Following:
    def __init__(
        self,
        source: RunSource,
        tracker: Tracker,
        options: FollowOptions,
        stopping: threading.Event,
    ) -> None:
        self._source = source
        self._tracker = tracker
        self._options = options
        self._stopping = stopping
        self._rollouts_due = 0.0
        self._is_started = False
        self._last_until: float | None = None
        """Time from which an ended run has no further values."""

    def follow(self, run: Mapping[str, Any]) -> Totals:
        totals = Totals(run=run["name"])
        path = self._options.state / f"{key_of(run)}-{self._options.tracker}.json"
        failures = 0
        with CursorFile(path, run_id=run["id"]) as cursor:
            try:
                while not self._stopping.is_set():
                    try:
                        wait = self._round(cursor, totals)
                        failures = 0
                    except RolldeckError as error:
                        if error.code in NOT_RETRIED or error.status not in RETRIED:
                            raise
                        if isinstance(error, TrackerError):
                            # The package may have lost its own process: it is started again.
                            self._tracker.close()
                            self._is_started = False
                        failures += 1
                        wait = self._options.backoff.wait_seconds(failures, random.random())  # noqa: S311
                        logger.warning("%s; nothing is lost, next attempt in %.0f s", error, wait)
                    if wait is None:
                        return totals
                    self._stopping.wait(wait)
            finally:
                self._tracker.close()
        return totals

    def _round(self, cursor: CursorFile, totals: Totals) -> float | None:
        """Store new values; return the seconds until the next round, or None at the end."""
        options = self._options
        # Read first: values stored after this status are read below.
        run = self._source.run()
        totals.status = run["status"]
        if not self._is_started:
            if run["kind"] == "outside" and run["registered_at"] is None:
                return options.every_seconds
            names = {"run": run["name"], "kind": run["kind"], "batch_size": run["batch_size"]}
            registered = run["wandb_project"] or run["project"] or "rolldeck"
            self._tracker.start(
                TrackedRun(
                    key=key_of(run),
                    name=f"{run['name']}-{run['id']}",
                    project=options.project or registered,
                    group=options.group or run["wandb_group"] or None,
                    config=names | dict(run["config"]),
                )
            )
            self._is_started = True
        has_ended = run["status"] in ENDED or run["archived_at"] is not None
        batch, after = self._source.batch(cursor.position, run["served_steps"], is_last=has_ended)
        now = time.monotonic()
        if has_ended or now >= self._rollouts_due:
            rollouts = self._source.rollouts(after, run["kind"], options.rollouts)
            if rollouts:
                self._rollouts_due = now + SECONDS_BETWEEN_ROLLOUTS
            batch = replace(batch, rollouts=rollouts)
        if self._source.has_moved():
            return 0.0
        if batch:
            self._tracker.record(batch)
            cursor.position = after
            cursor.save()
            totals.scalars += len(batch.scalars)
            totals.events += len(batch.events)
            totals.rollouts += len(batch.rollouts)
        elif has_ended:
            now = time.monotonic()
            if self._last_until is None:
                age = datetime.now(UTC) - datetime.fromisoformat(run["status_changed_at"])
                # Clocks of two machines differ.
                is_old = age > timedelta(minutes=5)
                self._last_until = now if is_old else now + options.last_seconds
            if now >= self._last_until:
                self._tracker.finish(run["status"])
                return None
        return 0.0 if len(batch.scalars) >= SCALARS_AT_ONCE else options.every_seconds


def key_of(run: Mapping[str, Any]) -> str:
    """Return a name of a run that no run of another platform has."""
    distinct = hashlib.sha256(run["created_at"].encode()).hexdigest()[:8]
    return f"{run['name']}-{run['id']}-{distinct}"
