"""Values of a run that a tracker has not stored yet, read over the API.

The platform keeps every sample and event, so nothing is held here: a batch is read again until the
tracker has stored it.
"""

import copy
import fnmatch
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection
from rolldeck.trackers.contract import LifecycleEvent, RolloutSample, Scalar, TrackedBatch
from rolldeck.trackers.cursor import Position, SeriesPosition
from rolldeck.trackers.samples import SampleReader, micros

ENDED: Final = frozenset({"completed", "stopped", "failed"})
LIFECYCLE: Final = (
    "created",
    "status",
    "trainer_registered",
    "epoch_opened",
    "environment_registered",
    "environment_disconnected",
    "environment_changed",
    "settings_changed",
    "fleet_launched",
    "fleet_ended",
    "weights_pinned",
    "weights_unpinned",
    "lesson_unlocked",
    "lesson_graduated",
    "lesson_reactivated",
    "lesson_regressed",
    "lesson_moved",
    "lesson_steered",
    "lesson_failed",
    "lesson_stopped",
    "evaluation_requested",
    "evaluation_failed",
    "evaluation_lost",
    "curriculum_complete",
    "max_rollouts_reached",
    "archived",
)
SCALARS_AT_ONCE: Final = 10_000
SAMPLES_REREAD: Final = 256
"""Samples before the last stored one that are read again if another sample was stored late."""


class RunSource:
    """One run, also after a reset has given its name to another."""

    def __init__(self, connection: Connection, run: str, exclude: Sequence[str] = ()) -> None:
        """Configure the source without sending a request.

        Args:
            connection: Connection to the platform.
            run: Name of the run.
            exclude: Patterns of metrics to leave out, such as ``rolldeck/resources/*``.
        """
        self._connection = connection
        self._name = run
        self._address = run
        self._id: int | None = None
        self._exclude = exclude

    def run(self) -> dict[str, Any]:
        """Return the run with its configuration; the same one in every call."""
        found = self._get("")
        if self._id is None:
            self._id = found["id"]
        elif found["id"] != self._id:
            self._address = f"{self._name}--{self._id}"
            found = self._get("")
        return dict(found)

    def has_moved(self) -> bool:
        """Return whether the name went to another run since the last call of `run`.

        Values read since then may belong to the other run.
        """
        before = self._address
        self.run()
        return self._address != before

    def batch(
        self, position: Position, step: int, *, is_last: bool = False
    ) -> tuple[TrackedBatch, Position]:
        """Return scalars and events after a position, and the position after them.

        Args:
            position: What the tracker has stored.
            step: Train steps that the run has served, for events without a sample near them.
            is_last: Read each series, also those whose last sample is stored.
        """
        after = copy.deepcopy(position)
        scalars: list[Scalar] = []
        for key in self._connection.rows(self._path("/metrics/keys"), {"limit": 500}):
            if len(scalars) >= SCALARS_AT_ONCE:
                break
            if not any(fnmatch.fnmatch(key["name"], pattern) for pattern in self._exclude):
                known = after.series.get(key["name"])
                if is_last or not (known and known.is_at(key["step"], micros(key["at"]))):
                    scalars += self._series(key["name"], after)
        events = self._events(after, StepsByTime(scalars, step))
        return TrackedBatch(scalars=scalars, events=events), after

    def rollouts(self, position: Position, kind: str, count: int) -> list[RolloutSample]:
        """Return samples of the newest rollouts after a position, and advance the position.

        Args:
            position: Changed to the newest samples.
            kind: Kind of the run: fleets have episodes, other runs groups, and language runs also
                evaluations.
            count: Maximum number of groups, of reports of episodes, and of evaluations of each
                type.
        """
        return SampleReader(self._get, self._rows).newest(position, kind, count)

    def _series(self, name: str, position: Position) -> list[Scalar]:
        """Return at most SCALARS_AT_ONCE samples of a metric after a position, and advance it."""
        known = position.series.get(name)
        after = known.count if known else 0
        # The last stored sample is read again: at its place is another one if a sample with a
        # lower number was stored late, by a push at the same time.
        begin = max(0, after - 1)
        found = self._samples(name, begin)
        if known and not _begins_with(found, known):
            begin = max(0, after - SAMPLES_REREAD)
            found = self._samples(name, begin)
            if not found:
                begin, found = 0, self._samples(name, 0)
        elif known:
            begin, found = after, found[1:]
        if found:
            last = found[-1]
            position.series[name] = SeriesPosition(
                count=begin + len(found), step=last.step, at=round(last.at * 1e6)
            )
        return found

    def _samples(self, name: str, after: int) -> list[Scalar]:
        query: dict[str, str | int] = {"name": name, "after": after, "limit": SCALARS_AT_ONCE}
        found = self._get("/metrics/samples", query)
        columns = zip(found["step"], found["value"], found["at"], strict=True)
        return [Scalar(name, step, float(value), at) for step, value, at in columns]

    def _events(self, position: Position, steps: "StepsByTime") -> list[LifecycleEvent]:
        """Return events after a position, oldest first, and advance it."""
        known, found = set(position.events), []
        query: dict[str, str | int] = {"kinds": ",".join(LIFECYCLE), "limit": 200}
        for row in self._connection.rows(self._path("/events"), query):
            if row["id"] <= position.events_before:
                break
            if row["id"] not in known:
                found.append(_event(row, steps))
        position.add_events([event.id for event in found])
        return found[::-1]

    def _rows(self, rest: str, params: Mapping[str, str | int]) -> Iterator[Any]:
        return self._connection.rows(self._path(rest), params)

    def _path(self, rest: str) -> str:
        return f"/api/v1/runs/{quote(self._address, safe='')}{rest}"

    def _get(self, rest: str, params: Mapping[str, str | int] | None = None) -> Any:
        answer = self._connection.json(Call(method="GET", path=self._path(rest), params=params))
        if not isinstance(answer, dict):
            detail = f"{self._path(rest)} returned no object"
            raise RolldeckError(status=200, code="bad_answer", detail=detail)
        return answer


class StepsByTime:
    """Train steps at points in time, from samples."""

    def __init__(self, scalars: Sequence[Scalar], last: int) -> None:
        """Sort the samples.

        Args:
            scalars: Samples in any order.
            last: Step without samples.
        """
        self._places = sorted((one.at, one.step) for one in scalars)
        self._last = last

    def at(self, seconds: float) -> int:
        """Return the step of the last sample until then, or else of the first one."""
        if not self._places:
            return self._last
        index = bisect_right(self._places, seconds, key=lambda place: place[0])
        return self._places[max(0, index - 1)][1]


def _begins_with(samples: Sequence[Scalar], known: SeriesPosition) -> bool:
    return bool(samples) and known.is_at(samples[0].step, round(samples[0].at * 1e6))


def _event(row: Mapping[str, Any], steps: StepsByTime) -> LifecycleEvent:
    kind = row["details"].get("to", row["kind"]) if row["kind"] == "status" else row["kind"]
    reason = f" ({row['reason']})" if row["reason"] else ""
    message = f"{row['message']}, by {row['actor']}{reason}"
    at = micros(row["at"]) / 1e6
    return LifecycleEvent(row["id"], str(kind), at, steps.at(at), message, row["level"])
