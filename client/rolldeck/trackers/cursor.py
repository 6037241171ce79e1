"""Position of a tracker in a run, in a file that survives the end of the process.

The file is replaced as a whole and flushed, so it always has one complete position. A lock keeps a
second process from using the same file.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from rolldeck.closing import Closing
from rolldeck.errors import RolldeckError

EVENTS_KEPT: Final = 200
"""Newest event ids that are compared one by one, as an event may be stored after a later one."""


class SeriesPosition(msgspec.Struct, kw_only=True):
    """Number of samples of a metric that were stored, and the last of them."""

    count: int
    step: int
    at: int
    """µs since 1970."""

    def is_at(self, step: int, at: int) -> bool:
        """Return whether the last stored sample has this step and time."""
        return (self.step, self.at) == (step, at)


class Position(msgspec.Struct, kw_only=True):
    """Position of a tracker in a run: everything before it is stored.

    Attributes:
        run_id: Id of the run on the platform.
        series: By metric.
        events: The highest ids of stored events, at most EVENTS_KEPT.
        events_before: Events up to this id are stored.
        rollout: Groups, or reports of episodes, up to this id are not sampled again.
        evaluation: Evaluations that finished until then, in µs since 1970, are not sampled again.
        micro_evaluation: Micro-evaluations up to this id are not sampled again.
    """

    run_id: int
    series: dict[str, SeriesPosition] = {}
    events: list[int] = []
    events_before: int = 0
    rollout: int = 0
    evaluation: int = 0
    micro_evaluation: int = 0

    def add_events(self, ids: list[int]) -> None:
        """Mark events as stored."""
        known = sorted({*self.events, *ids})
        self.events = known[-EVENTS_KEPT:]
        if len(known) > EVENTS_KEPT:
            self.events_before = known[-EVENTS_KEPT - 1]


class CursorFile(Closing):
    """The position in a file, locked while open."""

    def __init__(self, path: Path, *, run_id: int) -> None:
        """Open and lock the file, or begin a new one.

        Raises:
            RolldeckError: If another process has it, or it is not a position of this run.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            detail = f"{path} is in use by another rolldeck track of this run and tracker"
            raise RolldeckError(status=0, code="cursor_in_use", detail=detail) from error
        try:
            self.position = self._read(run_id)
        except RolldeckError:
            self._lock.close()
            raise

    def save(self) -> None:
        """Replace the file by the present position."""
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(self.position))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def close(self) -> None:
        self._lock.close()

    def _read(self, run_id: int) -> Position:
        try:
            position = msgspec.json.decode(self.path.read_bytes(), type=Position)
        except FileNotFoundError:
            return Position(run_id=run_id)
        except msgspec.DecodeError as error:
            detail = (
                f"{self.path} is not a position of a tracker ({error}); "
                "delete it to send the run from its beginning"
            )
            raise RolldeckError(status=0, code="invalid_cursor", detail=detail) from error
        if position.run_id != run_id:
            detail = f"{self.path} belongs to run {position.run_id}, not to run {run_id}"
            raise RolldeckError(status=0, code="invalid_cursor", detail=detail)
        return position
