"""Values of a run for a tracker, and the tracker's position in them.

The file is replaced as a whole and flushed, so it always has one complete position. A lock keeps a
second process from using the same file.

The platform keeps every sample and event, so nothing is held here: a batch is read again until the
tracker has stored it.
"""

import copy
import fcntl
import fnmatch
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from rolldeck.closing import Closing
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection
from rolldeck.trackers.contract import LifecycleEvent, RolloutSample, Scalar, TrackedBatch

# Position of a tracker in a run, in a file that survives the end of the process.

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
            detail = f"{path} is in use by another rolldeck run track of this run and tracker"
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


# Samples of rollouts with their texts: groups, evaluations of lessons and reports of episodes.

UNREADABLE: Final = frozenset({403, 404, 409, 410, 422})
SEQUENCES_PER_GROUP: Final = 4
"""Also the maximum number of answers of an evaluation."""
CHARACTERS_PER_MESSAGE: Final = 4000
TOKENS_PER_SEQUENCE: Final = 16_384
EVALUATIONS_AT_MOST: Final = 20
"""Maximum of newest evaluations whose answers a request returns."""
Row = Mapping[str, Any]


def micros(text: str) -> int:
    """Return a time of the API in µs since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def _answers(
    row: Row, answers: list[Row], mode: str, lesson: str, at: int, number: str
) -> Iterator[RolloutSample]:
    for place, answer in enumerate(answers[:SEQUENCES_PER_GROUP]):
        yield RolloutSample(
            id=number,
            sequence=place,
            mode=mode,
            at=at / 1e6,
            step=max(0, row["policy_step"]),
            environment=lesson,
            score=answer["reward"],
            length=None,
            messages=[
                _message("prompt", answer["prompt"]),
                _message("response", answer["response"]),
            ],
        )


def _message(role: str, text: str) -> Mapping[str, str]:
    return {"role": role, "content": text}


# Values of a run that a tracker has not stored yet, read over the API.

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
    "outage_ended",
    "evaluation_requested",
    "evaluation_failed",
    "evaluation_lost",
    "curriculum_complete",
    "max_rollouts_reached",
    "problems_skipped",
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
        steps = StepsByTime(scalars, step)
        known_events, events = set(after.events), []
        query: dict[str, str | int] = {"kinds": ",".join(LIFECYCLE), "limit": 200}
        for row in self._connection.rows(self._path("/events"), query):
            if row["id"] <= after.events_before:
                break
            if row["id"] in known_events:
                continue
            details, at = row["details"], micros(row["at"]) / 1e6
            kind = details.get("to", "status") if row["kind"] == "status" else row["kind"]
            reason = f" ({row['reason']})" if row["reason"] else ""
            message = f"{row['message']}, by {row['actor']}{reason}"
            step_then = steps.at(at)
            events.append(
                LifecycleEvent(row["id"], str(kind), at, step_then, message, row["level"])
            )
        after.add_events([event.id for event in events])
        return TrackedBatch(scalars=scalars, events=events[::-1]), after

    def rollouts(self, position: Position, kind: str, count: int) -> list[RolloutSample]:
        """Return samples of the newest rollouts after a position, and advance the position.

        Args:
            position: Changed to the newest samples.
            kind: Kind of the run: fleets have episodes, other runs groups, and language runs also
                evaluations.
            count: Maximum number of groups, of reports of episodes, and of evaluations of each
                type.
        """
        if count < 1:
            return []
        readers = [self._groups]
        if kind == "fleet":
            readers = [self._episodes]
        elif kind == "language":
            readers += [self._evaluations, self._micro_evaluations]
        return [sample for read in readers for sample in read(position, count)]

    def _groups(self, position: Position, count: int) -> Iterator[RolloutSample]:
        query: dict[str, str | int] = {"run": self._address, "limit": count}
        for group in reversed(self._read("/api/v1/trajectories", query)["results"]):
            if int(group["id"]) <= position.rollout or not group["is_indexed"]:
                continue
            position.rollout = int(group["id"])
            try:
                yield from self._sequences(group)
            except RolldeckError as refusal:
                # Deleted meanwhile, or not for this token; other groups are samples too.
                if refusal.status not in UNREADABLE:
                    raise

    def _sequences(self, group: Row) -> Iterator[RolloutSample]:
        place = f"/groups/{group['id']}/sequences"
        listed = self._get(place)
        for sequence in listed["results"][:SEQUENCES_PER_GROUP]:
            messages: list[Mapping[str, str]] = []
            if listed["has_messages"]:
                query = {"characters": CHARACTERS_PER_MESSAGE, "limit": 100}
                conversation = self._get(f"{place}/{sequence['index']}/messages", query)
                for one in conversation["results"]:
                    text = "\n".join(part["text"] for part in one["parts"])
                    messages.append(_message(one["role"], text))
            elif listed["has_text"]:
                window = self._get(f"{place}/{sequence['index']}", {"count": TOKENS_PER_SEQUENCE})
                # Divided where the policy begins or ends to write.
                pieces = zip(window["is_own"], window["text"], strict=True)
                for is_own, part in groupby(pieces, key=lambda piece: piece[0]):
                    text = "".join(text for _, text in part)[:CHARACTERS_PER_MESSAGE]
                    messages.append(_message("response" if is_own else "prompt", text))
            yield RolloutSample(
                id=str(group["id"]),
                sequence=sequence["index"],
                mode="train",
                at=micros(group["at"]) / 1e6,
                step=max(0, group["step"] or group["policy_step"] or 0),
                environment=group["environment"] or group["lesson"],
                score=sequence["score"],
                length=sequence["tokens"],
                messages=messages,
            )

    def _episodes(self, position: Position, count: int) -> Iterator[RolloutSample]:
        query = {"limit": count, "after_id": position.rollout}
        for report in reversed(self._get("/episodes", query)["results"]):
            ends = ("terminated", "truncated", "aborted")
            about = ", ".join(f"{report[end]} {end}" for end in ends)
            text = f"{report['count']} {report['mode']} episodes of worker {report['worker']}"
            yield RolloutSample(
                id=str(report["id"]),
                sequence=0,
                mode=report["mode"],
                at=micros(report["at"]) / 1e6,
                step=max(0, report["policy_step"]),
                environment=report["environment"],
                score=report["return_mean"],
                length=report["length_mean"],
                messages=[_message("episodes", f"{text}: {about}")],
            )
            position.rollout = max(position.rollout, report["id"])

    def _evaluations(self, position: Position, count: int) -> Iterator[RolloutSample]:
        query = {"limit": 100, "samples": min(count, EVALUATIONS_AT_MOST)}
        found = [
            (micros(row["finished_at"]), row)
            for row in self._get("/evaluations", query)["results"]
            if row["samples"]
        ]
        after = position.evaluation
        for at, row in sorted(found, key=lambda one: one[0]):
            if at > after:
                yield from _answers(row, row["samples"], "eval", row["lesson"], at, row["id"])
                position.evaluation = at

    def _micro_evaluations(self, position: Position, count: int) -> Iterator[RolloutSample]:
        """Yield answers of the lessons whose micro-evaluations are the newest ones."""
        # The lessons with a series of micro-evaluations, newest sample first.
        keys = self._connection.rows(
            self._path("/metrics/keys"), {"prefix": "micro_eval/", "limit": 500}
        )
        named = [(key["at"], key["name"].split("/")) for key in keys]
        lessons = [(at, parts[1]) for at, parts in named if parts[2:] == ["success"]]
        found = []
        for _, lesson in sorted(lessons, reverse=True)[:count]:
            place = f"/lessons/{quote(lesson, safe='')}/micro-evaluations"
            rows = self._get(place, {"limit": EVALUATIONS_AT_MOST, "samples": 1})["results"]
            found += [(row["id"], lesson, row) for row in rows if row["answers"]]
        after = position.micro_evaluation
        for number, lesson, row in sorted(found, key=lambda one: one[0]):
            if number > after:
                at = micros(row["at"])
                yield from _answers(row, row["answers"], "micro_eval", lesson, at, str(number))
                position.micro_evaluation = number

    def _series(self, name: str, position: Position) -> list[Scalar]:
        """Return at most SCALARS_AT_ONCE samples of a metric after a position, and advance it."""
        known = position.series.get(name)
        after = known.count if known else 0
        # The last stored sample is read again: at its place is another one if a sample with a
        # lower number was stored late, by a push at the same time.
        begin = max(0, after - 1)
        found = self._samples(name, begin)
        if known and not (found and known.is_at(found[0].step, round(found[0].at * 1e6))):
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

    def _path(self, rest: str) -> str:
        return f"/api/v1/runs/{quote(self._address, safe='')}{rest}"

    def _get(self, rest: str, params: Mapping[str, str | int] | None = None) -> Any:
        return self._read(self._path(rest), params)

    def _read(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        return self._connection.decoded(
            Call(method="GET", path=path, params=params), dict[str, Any]
        )


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
