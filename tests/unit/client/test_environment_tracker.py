"""An environment's tracker takes events without waiting, and loses none while it fails."""

import logging
import time
from pathlib import Path

import pytest

from rolldeck.handler import HandlerEvent
from rolldeck.http import Backoff
from rolldeck.trackers.contract import TrackedBatch, TrackedRun, TrackerError, TrackerRefusedError
from rolldeck.trackers.environment import BYTES_KEPT, EnvironmentTracker
from tests.waiting import eventually

SOON = Backoff(first_seconds=0.01, most_seconds=0.01)


class Kept:
    """A tracker that keeps what it gets; `failing` is raised instead."""

    failing: TrackerError | None = None

    def __init__(self) -> None:
        self.runs: list[TrackedRun] = []
        self.values: list[tuple[str, int, float]] = []
        self.events: list[tuple[str, int, str]] = []

    def start(self, run: TrackedRun) -> None:
        if self.failing:
            raise self.failing
        self.runs.append(run)

    def record(self, batch: TrackedBatch) -> None:
        if self.failing:
            raise self.failing
        self.values += [(one.name, one.step, one.value) for one in batch.scalars]
        self.events += [(one.kind, one.step, one.message) for one in batch.events]

    def finish(self, status: str) -> None:
        raise AssertionError(status)

    def close(self) -> None:
        pass


def handled(name: str = "gsm8k_0") -> list[HandlerEvent]:
    values = {"name": name, "group": "grpo", "project": "math"}
    return [
        HandlerEvent(kind="registered", values=values),
        HandlerEvent(kind="sent", values={"groups": 2, "score_mean": 0.5, "tokens_mean": 7}),
        HandlerEvent(kind="status", values={"current_step": 3, "queue_size": 9}),
        HandlerEvent(kind="paused", values={"current_step": 3, "queued_sequences": 72}),
        HandlerEvent(kind="sent", values={"groups": 1}),
        HandlerEvent(
            kind="metrics", values={"current_step": 4, "metrics": {"env/gsm8k/kind": 0.25}}
        ),
        HandlerEvent(kind="disconnected", values={}),
    ]


VALUES = [
    ("environment/groups_sent", 0, 2),
    ("environment/score_mean", 0, 0.5),
    ("environment/tokens_mean", 0, 7),
    ("environment/queue_size", 3, 9),
    ("environment/groups_sent", 3, 3),
    ("env/gsm8k/kind", 4, 0.25),
]
EVENTS = [("paused", 3, "72 sequences queued"), ("disconnected", 4, "")]


def test_events_become_scalars_and_lifecycle_under_the_registered_names(tmp_path: Path) -> None:
    kept = Kept()
    with EnvironmentTracker(lambda: kept, spool=tmp_path / "a.jsonl", backoff=SOON) as tracker:
        for event in handled():
            tracker(event)

    assert [(run.name, run.project, run.group) for run in kept.runs] == [
        ("gsm8k_0", "math", "grpo")
    ]
    assert kept.values == VALUES
    assert kept.events == EVENTS


@pytest.mark.parametrize("kind", [TrackerError, TrackerRefusedError])
def test_a_failing_tracker_delays_nothing_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[TrackerError]
) -> None:
    caplog.set_level(logging.WARNING, "rolldeck")
    kept = Kept()
    kept.failing = kind.because("kept", "no key")
    with EnvironmentTracker(lambda: kept, spool=tmp_path / "a.jsonl", backoff=SOON) as tracker:
        began = time.perf_counter()
        for event in handled():
            tracker(event)
        took = time.perf_counter() - began
        eventually(lambda: "no key" in caplog.text)
        kept.failing = None
        eventually(lambda: len(kept.events) == 2)

    assert took < 0.5
    assert kept.values == VALUES
    assert "nothing is lost" in caplog.text


def test_events_of_an_ended_process_are_given_first(tmp_path: Path) -> None:
    spool, dead, kept = tmp_path / "a.jsonl", Kept(), Kept()
    dead.failing = TrackerError.because("kept", "away")
    with EnvironmentTracker(lambda: dead, spool=spool, backoff=SOON, close_seconds=0.2) as first:
        for event in handled():
            first(event)
    with EnvironmentTracker(lambda: kept, spool=spool, backoff=SOON) as second:
        for event in handled("gsm8k_1"):
            second(event)
        eventually(lambda: len(kept.events) == 4)

    assert [run.name for run in kept.runs] == ["gsm8k_0", "gsm8k_1"]
    assert kept.values == VALUES * 2
    assert len({run.key for run in kept.runs}) == 2


def test_a_full_file_drops_and_counts_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept()
    kept.failing = TrackerError.because("kept", "away")
    with EnvironmentTracker(
        lambda: kept, spool=tmp_path / "a.jsonl", backoff=SOON, close_seconds=0, bytes_at_most=300
    ) as tracker:
        for event in handled() * 3:
            tracker(event)
        dropped = tracker.dropped
        kept.failing = None

    assert dropped > 10
    assert f"{dropped} events were dropped" in caplog.text


def test_a_grown_file_is_emptied_when_all_of_it_is_stored(tmp_path: Path) -> None:
    spool, kept = tmp_path / "a.jsonl", Kept()
    with EnvironmentTracker(lambda: kept, spool=spool, backoff=SOON) as tracker:
        tracker(handled()[0])
        wide = HandlerEvent(kind="sent", values={"groups": 1, "note": "x" * 1000})
        for _ in range(BYTES_KEPT // 1000 + 10):
            tracker(wide)
        eventually(lambda: spool.stat().st_size == 0)
        tracker(wide)
        eventually(lambda: len(kept.values) == BYTES_KEPT // 1000 + 11)

    assert [value for _, _, value in kept.values] == list(range(1, BYTES_KEPT // 1000 + 12))
