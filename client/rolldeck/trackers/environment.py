"""Tracker of one environment: what its rollout handler sends, and when it pauses and resumes.

The handler's thread appends a line to a file and goes on. Another thread gives the lines to the
tracking package and repeats them while it fails. Lines that an earlier process has left in the
file are given first.
"""

import json
import logging
import math
import random
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from rolldeck.closing import Closing
from rolldeck.errors import RolldeckError
from rolldeck.handler import HandlerEvent
from rolldeck.http import Backoff
from rolldeck.trackers.contract import LifecycleEvent, Scalar, TrackedBatch, TrackedRun, Tracker

logger = logging.getLogger("rolldeck")

BYTES_AT_MOST: Final = 64 << 20
"""Size of the file at which further events are counted and dropped."""
BYTES_KEPT: Final = 1 << 20
"""Size above which the file is emptied once all of it is stored."""
LINES_AT_ONCE: Final = 1000
LIFECYCLE: Final = frozenset({"paused", "resumed", "disconnected"})
Line = dict[str, Any]


class EnvironmentTracker(Closing):
    """The `tracker` of a :class:`rolldeck.handler.RolloutHandler`.

    ::

        with EnvironmentTracker(WandbTracker, spool=Path("gsm8k.jsonl")) as tracker:
            with RolloutHandler(url, offer, token=token, tracker=tracker) as handler:
                handler.run(produce)

    Project, group and unique name are those of the registration.
    """

    def __init__(
        self,
        make_tracker: Callable[[], Tracker],
        *,
        spool: Path,
        backoff: Backoff | None = None,
        close_seconds: float = 10.0,
        bytes_at_most: int = BYTES_AT_MOST,
    ) -> None:
        """Open the file and start the thread.

        Args:
            make_tracker: Called for each registration, such as ``WandbTracker``.
            spool: File of the waiting events, for one process at a time.
            backoff: Waits while the tracker fails.
            close_seconds: Maximum time that `close` waits for the tracker.
            bytes_at_most: Size of the file at which events are dropped.
        """
        self._make_tracker = make_tracker
        self._path = spool
        self._done = spool.with_suffix(".offset")
        self._backoff = backoff or Backoff(first_seconds=1, most_seconds=60)
        self._close_seconds = close_seconds
        self._bytes_at_most = bytes_at_most
        self._file = spool.open("ab")
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._closing = threading.Event()
        self._give_up_at = math.inf
        self._tracker: Tracker | None = None
        self.dropped = 0
        """Number of events that the file did not accept."""
        self._thread = threading.Thread(target=self._work, daemon=True, name="rolldeck tracker")
        self._thread.start()

    def __call__(self, event: HandlerEvent) -> None:
        """Append an event to the file."""
        line = {"kind": event.kind, "at": time.time(), **event.values}
        if event.kind == "registered":
            line["key"] = f"{event.values['name']}-{uuid.uuid4().hex[:8]}".replace("/", "_")
        with self._lock:
            try:
                if self._file.tell() >= self._bytes_at_most:
                    self.dropped += 1
                    return
                self._file.write(json.dumps(line).encode() + b"\n")
                self._file.flush()
            except OSError as error:
                # The environment goes on without its tracker.
                self.dropped += 1
                logger.warning("%s: %s; %d events were dropped", self._path, error, self.dropped)
        self._arrived.set()

    def close(self) -> None:
        """Wait for the tracker up to `close_seconds`; other events stay in the file."""
        self._give_up_at = time.monotonic() + self._close_seconds
        self._closing.set()
        self._arrived.set()
        self._thread.join(self._close_seconds)
        with self._lock:
            self._file.close()
        if self.dropped:
            logger.warning("%d events were dropped from %s", self.dropped, self._path)

    def _work(self) -> None:
        position, failures = _Position(), 0
        with suppress(FileNotFoundError):
            position = msgspec.json.decode(self._done.read_bytes(), type=_Position)
        while True:
            # Read first: events from before `close` are read below.
            is_closing = self._closing.is_set()
            lines = self._next(position.offset)
            if not lines:
                with self._lock:
                    is_whole = not self._file.closed and position.offset == self._file.tell()
                    if is_whole and position.offset > BYTES_KEPT:
                        position.offset = 0
                        self._save(position)
                        self._file.truncate(0)
                        self._file.seek(0)
                if is_closing:
                    break
                self._arrived.wait(1.0)
                self._arrived.clear()
                continue
            try:
                position = self._give(position, lines)
                failures = 0
            except RolldeckError as error:
                self._drop_tracker()
                failures += 1
                wait = self._backoff.wait_seconds(failures, random.random())  # noqa: S311
                logger.warning("%s; nothing is lost, next attempt in %.0f s", error, wait)
                if time.monotonic() + wait > self._give_up_at:
                    break
                if self._closing.wait(wait):
                    time.sleep(wait)
        self._drop_tracker()

    def _give(self, position: "_Position", lines: list[tuple[int, Line]]) -> "_Position":
        """Give lines of one registration to the tracker; return the position after them."""
        end, first = lines[0]
        if first["kind"] == "registered":
            self._drop_tracker()
            after = _Position(offset=end, run=first)
            self._started(after)
        else:
            step, groups, scalars, events = position.step, position.groups, [], []
            for end, line in lines:
                at = line["at"]
                step = line.get("current_step", step)
                if line["kind"] == "sent":
                    groups += line["groups"]
                    scalars.append(Scalar("environment/groups_sent", step, groups, at))
                    scalars += [
                        Scalar(f"environment/{name}", step, line[name], at)
                        for name in ("score_mean", "tokens_mean")
                        if name in line
                    ]
                elif line["kind"] == "metrics":
                    values = line["metrics"].items()
                    scalars += [Scalar(name, step, value, at) for name, value in values]
                elif line["kind"] == "status":
                    scalars.append(Scalar("environment/queue_size", step, line["queue_size"], at))
                elif line["kind"] in LIFECYCLE:
                    queued = line.get("queued_sequences")
                    text = "" if queued is None else f"{queued} sequences queued"
                    events.append(LifecycleEvent(end, line["kind"], at, step, text))
            after = _Position(offset=lines[-1][0], run=position.run, step=step, groups=groups)
            self._started(after).record(TrackedBatch(scalars=scalars, events=events))
        self._save(after)
        return after

    def _started(self, position: "_Position") -> Tracker:
        if self._tracker is None:
            run = position.run
            tracker = self._make_tracker()
            tracker.start(
                TrackedRun(
                    key=run["key"],
                    name=run["name"],
                    project=run.get("project") or "rolldeck",
                    group=run.get("group"),
                    config={"environment": run["name"]},
                )
            )
            self._tracker = tracker
        return self._tracker

    def _drop_tracker(self) -> None:
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def _next(self, offset: int) -> list[tuple[int, Line]]:
        """Return complete lines from an offset, each with its end, up to a further registration."""
        found: list[tuple[int, Line]] = []
        with self._path.open("rb") as file:
            file.seek(offset)
            for raw in islice(file, LINES_AT_ONCE):
                offset += len(raw)
                if not raw.endswith(b"\n"):
                    break
                line = json.loads(raw)
                if found and line["kind"] == "registered":
                    break
                found.append((offset, line))
                if line["kind"] == "registered":
                    break
        return found

    def _save(self, position: "_Position") -> None:
        fresh = self._done.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(position))
        fresh.replace(self._done)


class _Position(msgspec.Struct, kw_only=True):
    """End of the stored lines, and what the next ones continue."""

    offset: int = 0
    run: Line = {}
    step: int = 0
    groups: int = 0
