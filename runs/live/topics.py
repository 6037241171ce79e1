"""Read the topics of live pages from the database.

Each topic is read as a whole or only in the parts that a nudge named. What cannot be read is
logged and stays as it was shown: one broken part must not take a page down.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from django.db import connection
from msgspec import Raw

from runs.core.control import DESIRED
from runs.core.lifecycle import RunStatus
from runs.core.live_topic import WINDOW_ROWS, Topic
from runs.live import parts
from runs.live.deck_topics import ME, rule_of, told_as
from runs.models import Run
from runs.wire import Control
from runs.wire.live import ControlFrame, DeltaFrame, SnapshotFrame

logger = logging.getLogger(__name__)

RUN_PREFIX: Final = "run:"
CONTROL_PREFIX: Final = "control:"
# What a hidden tab still gets.
HIDDEN_PARTS: Final = frozenset({"run", "alerts", "session", "notice"})
HIDDEN_SERIES: Final = frozenset({"events"})
# In place of a part's name: a change that was announced may be of any.
ANY: Final = ""


@dataclass(slots=True)
class Change:
    """What one look found new: encoded parts and rows, and the number of its frame."""

    sequence: int
    parts: dict[str, bytes] = field(default_factory=dict)
    series: dict[str, list[bytes]] = field(default_factory=dict)
    commits: Mapping[str, float] = field(default_factory=dict)
    """When what was announced was committed, by part or series; :data:`ANY` for all of them."""

    @property
    def committed_at(self) -> datetime | None:
        """When the newest of it was committed; None for what was found without being announced."""
        known = [
            self.commits[name] for name in (*self.parts, *self.series, ANY) if name in self.commits
        ]
        return datetime.fromtimestamp(max(known), UTC) if known else None

    def for_hidden(self) -> "Change | None":
        """Return what of this a hidden tab gets, or None."""
        kept = Change(
            sequence=self.sequence,
            commits=self.commits,
            parts={name: text for name, text in self.parts.items() if name in HIDDEN_PARTS},
            series={name: rows for name, rows in self.series.items() if name in HIDDEN_SERIES},
        )
        return kept if kept.parts or kept.series else None


class RunTopic:
    """The page of one run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.run_id: int | None = None
        self.sequence = 0
        self.committed_at: datetime | None = None
        """When the newest change that is shown was committed, if that is known."""
        self._shown = Topic()
        self._read_at: dict[str, float] = {}
        self.late: set[str] = set()
        """Parts that cost much: they are looked at right after the first snapshot, not before."""

    def look(self, names: Collection[str] | None) -> Change | None:
        """Read the parts and series in `names` (None: all) and return what is new.

        Runs in a thread; the hub never runs two looks of a topic at once.
        """
        if names is not None and not names:
            return None
        if names is None:
            self._find_run()
        if self.run_id is None:
            return None
        found = Change(sequence=0)
        found.parts = self._shown.changed_parts(self._read_parts(self.run_id, names))
        found.series = self._read_series(self.run_id, names)
        if not found.parts and not found.series:
            return None
        self.sequence = found.sequence = next_sequence()
        return found

    def _find_run(self) -> None:
        """Find the run at the address: after a reset it is a fresh one, whose page starts empty."""
        run = Run.objects.only("pk").at(self.name.partition(":")[2])
        if run is not None and run.pk != self.run_id:
            self.run_id, self._shown, self._read_at = run.pk, Topic(), {}

    def _read_parts(self, run_id: int, names: Collection[str] | None) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name, reader in parts.part_readers().items():
            if (names is None or name in names) and self._is_due(name):
                try:
                    read[name] = reader(run_id)
                except Exception:
                    logger.exception("part %s of %s cannot be read", name, self.name)
        return read

    def _is_due(self, name: str) -> bool:
        """Return whether a part has stood long enough, and count it as read from now on."""
        if not (pace := parts.pace_of(name)):
            return True
        now = time.monotonic()
        if name not in self._read_at:
            self._read_at[name] = now - pace
            self.late.add(name)
            return False
        if now - self._read_at[name] < pace:
            return False
        self._read_at[name] = now
        return True

    def _read_series(self, run_id: int, names: Collection[str] | None) -> dict[str, list[bytes]]:
        fresh: dict[str, list[bytes]] = {}
        for name, reader in parts.series_readers().items():
            if names is None or name in names:
                try:
                    rows = reader(run_id, self._shown.after(name), WINDOW_ROWS)
                except Exception:
                    logger.exception("series %s of %s cannot be read", name, self.name)
                    continue
                if new := self._shown.new_rows(name, rows):
                    fresh[name] = new
        return fresh

    def snapshot(self, *, at: datetime) -> str:
        """Return everything that was shown, as one frame."""
        frame = SnapshotFrame(
            topic=told_as(self.name),
            sequence=self.sequence,
            at=at,
            committed_at=_no_later(self.committed_at, at),
            parts=_raw_parts(self._shown.parts),
            series=_raw_series(self._shown.window()),
        )
        return msgspec.json.encode(frame).decode()

    def delta(self, change: Change, *, previous: int, at: datetime) -> str:
        """Return what is new, as one frame that follows frame `previous`."""
        frame = DeltaFrame(
            topic=told_as(self.name),
            previous=previous,
            sequence=change.sequence,
            at=at,
            committed_at=_no_later(change.committed_at, at),
            parts=_raw_parts(change.parts),
            series=_raw_series(change.series),
        )
        return msgspec.json.encode(frame).decode()


class DeckTopic(RunTopic):
    """What belongs to the whole deck: the list of all runs, the alerts, the machines."""

    def look(self, names: Collection[str] | None) -> Change | None:
        """Read all of it and return what is new."""
        if names is not None and not names:
            return None
        read: dict[str, Any] = {}
        for name, reader in self._readers().items():
            try:
                read[name] = reader()
            except Exception:
                logger.exception("part %s of the deck cannot be read", name)
        changed = self._shown.changed_parts(read)
        if not changed:
            return None
        self.sequence = next_sequence()
        return Change(sequence=self.sequence, parts=changed)

    def _readers(self) -> dict[str, Callable[[], Any]]:
        return parts.deck_readers(self.name)


class OwnTopic(DeckTopic):
    """What concerns one person: who they are, what everybody is told."""

    def _readers(self) -> dict[str, Callable[[], Any]]:
        username = self.name.removeprefix(f"{ME}:user:")
        return {name: partial(read, username) for name, read in parts.own_readers().items()}


class ControlTopic(RunTopic):
    """What one run wants of its rollout handlers."""

    def _read_parts(self, run_id: int, names: Collection[str] | None) -> dict[str, Any]:  # noqa: ARG002
        control = control_of(run_id)
        return {} if control is None else {"control": control}

    def _read_series(self, run_id: int, names: Collection[str] | None) -> dict[str, list[bytes]]:  # noqa: ARG002
        return {}

    def snapshot(self, *, at: datetime) -> str:
        """Return the control frame."""
        control = msgspec.json.decode(self._shown.parts["control"], type=Control)
        frame = ControlFrame(**msgspec.structs.asdict(control), at=at)
        return msgspec.json.encode(frame).decode()

    def delta(self, change: Change, *, previous: int, at: datetime) -> str:  # noqa: ARG002
        """Return the control frame: it is always whole."""
        return self.snapshot(at=at)


def control_of(run_id: int) -> Control | None:
    """Return what a run wants of its rollout handlers, or None when it is gone."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    read_queue = parts.part_readers().get("queue")
    queue = read_queue(run_id) if read_queue else None
    return Control(
        desired=DESIRED[RunStatus(run.status)],
        queue_size=queue.queued if queue else 0,
        threshold=queue.threshold if queue else run.off_policy_tolerance * (run.batch_size or 0),
        policy_step=run.policy_step,
        epoch=run.epoch,
    )


def topic_named(name: str) -> RunTopic:
    """Return a topic that has not looked yet."""
    if rule_of(name) is not None:
        return OwnTopic(name) if name.startswith(f"{ME}:") else DeckTopic(name)
    return ControlTopic(name) if name.startswith(CONTROL_PREFIX) else RunTopic(name)


def _no_later(committed_at: datetime | None, at: datetime) -> datetime | None:
    """Clocks of machines differ: nothing is told before it was committed."""
    return None if committed_at is None else min(committed_at, at)


def _raw_parts(parts: Mapping[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(text) for name, text in parts.items()}


def _raw_series(series: Mapping[str, list[bytes]]) -> dict[str, list[Raw]]:
    return {name: [Raw(row) for row in rows] for name, rows in series.items()}


def next_sequence() -> int:
    """Return the next number of a live frame, rising over all processes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('runs_live_sequence')")
        return int(cursor.fetchone()[0])
