"""Only components that crash too often are abandoned."""

import select
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolldeck.wire import FleetEvent, WorkerReport
from rollouts.diagnosis.rules.problems import causes
from rollouts.fleet.manager.restart_policy import RESPAWN_RULE
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog, RestartRule
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.env_process_pool import EnvProcessPool
from rollouts.fleet.steps.slots import Slots
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState

MakeSettings = Callable[..., FleetSettings]
MakeWorkerSettings = Callable[..., WorkerSettings]

COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0)
THRICE = RestartRule(most_crashes=3, window_seconds=3600.0, first_seconds=0.01, most_seconds=0.02)


class Stepping:
    """Worker that answers every observation with an action, and counts."""

    def __init__(self) -> None:
        self.steps: Counter[int] = Counter()
        self.lost_by_slot: Counter[int] = Counter()
        self.slots_given_up: list[int] = []
        self.waiting: list[int] = []

    def introduced(self, ready: Any) -> None:
        """Do nothing: the spaces are known."""

    def began(self, slot: int, *_: Any) -> None:
        self.waiting.append(slot)

    def stepped(self, slots: Slots, *_: Any) -> None:
        self.steps.update(slots.tolist())
        self.waiting += slots.tolist()

    def recorded(self, slot: int, recording: Any) -> None:
        """Do nothing: nothing is recorded."""

    def lost(self, slot: int) -> None:
        self.lost_by_slot[slot] += 1
        self.waiting = [other for other in self.waiting if other != slot]

    def given_up(self, slot: int) -> None:
        self.slots_given_up.append(slot)

    def turn(self, crew: EnvProcessPool) -> None:
        now = time.monotonic()
        crew.maintain(now)
        readable, _, _ = select.select(crew.descriptors, [], [], 0.02)
        crew.read(set(readable), now)
        slots, self.waiting = self.waiting, []
        crew.step(np.array(slots, np.intp), np.zeros(len(slots), np.int64), now)


def test_a_crashing_env_process_is_abandoned_and_the_others_continue(
    make_worker_settings: MakeWorkerSettings, tmp_path: Path
) -> None:
    settings = make_worker_settings(
        spec="one_lives:x", kwargs={"marker": str(tmp_path / "first")}, envs_per_process=2
    )
    events, listener = EventLog(), Stepping()
    crew = EnvProcessPool(
        settings.fleet.config, base_seed=0, events=events, listener=listener, rule=THRICE
    )
    deadline = time.monotonic() + 120
    try:
        while len(listener.slots_given_up) < 2:
            assert time.monotonic() < deadline, events.pop()
            listener.turn(crew)
        failed = sorted(listener.slots_given_up)
        sound = sorted({0, 1, 2, 3} - set(failed))
        before = Counter(listener.steps)
        while min(listener.steps[slot] - before[slot] for slot in sound) < 50:
            assert time.monotonic() < deadline
            listener.turn(crew)
        reports = crew.reports()
        is_broken = crew.is_broken
    finally:
        crew.close()

    assert failed in ([0, 1], [2, 3])
    assert not is_broken
    assert [slot for slot, report in enumerate(reports) if report.state == "failed"] == failed
    assert all("ended with exit code 3" in reports[slot].error for slot in failed)
    assert [reports[slot].pid for slot in failed] == [None, None]
    assert [listener.lost_by_slot[slot] for slot in (*failed, *sound)] == [3, 3, 0, 0]
    assert [listener.steps[slot] - before[slot] for slot in failed] == [0, 0]
    reported = events.pop()
    assert [event.kind for event in reported] == ["slot_restarted", "slot_restarted", "slot_failed"]
    assert [event.details["slots"] for event in reported] == [failed] * 3
    assert reported[-1].level == "error"
    lost = [(event.message, len(event.details["slots"])) for event in reversed(reported)]
    assert causes(lost, environment="e") == ["e: its process ended with exit code 3 (6 times)"]


class Failing:
    """Workers that run for a while and then fail, in simulated time."""

    def __init__(self, *, works_seconds: float) -> None:
        self.now = 0.0
        self.spawned_at: list[float] = []
        self._works_seconds = works_seconds

    def spawn(self, _: object) -> "Failing":
        self.spawned_at.append(self.now)
        return self

    def submit(self, *_: object) -> "Future[Any]":
        works = self.now - self.spawned_at[-1] < self._works_seconds
        report = WorkerReport(
            index=0,
            incarnation="a",
            state="running" if works else "failed",
            reason="" if works else "out of luck",
        )
        future: Future[Any] = Future()
        future.set_result(
            WorkerState(report=report, unspent=0, outstanding=0, accepted=0, is_drained=False)
        )
        return future

    def kill(self) -> None:
        """Do nothing: the worker has ended."""

    def obstacle(self) -> str:
        return ""


@pytest.fixture
def live(make_settings: MakeSettings) -> Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]]:
    """Run turns of a supervisor up to a time; return it and its events."""

    def through(source: Failing, *, until: float) -> tuple[WorkerSupervisor, list[FleetEvent]]:
        events = EventLog()
        member = WorkerSupervisor(0, settings=make_settings(), source=source, events=events)  # type: ignore[arg-type]
        while source.now < until:
            member.turn(source.now)
            member.give(COMMAND, source.now)
            source.now += 0.1
        return member, events.pop()

    return through


def test_a_repeatedly_failing_worker_is_abandoned(
    live: Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]],
) -> None:
    source = Failing(works_seconds=0.0)

    member, events = live(source, until=3600.0)

    assert len(source.spawned_at) == RESPAWN_RULE.most_crashes
    waits = [later - earlier for earlier, later in pairwise(source.spawned_at)]
    # Each wait is twice the previous one, within two turns, up to the maximum.
    expected = [min(20.0, 0.2 * 2.0**crash) for crash in range(len(waits))]
    assert waits == pytest.approx(expected, abs=0.35)
    assert (member.condition, member.is_given_up, member.cannot_recover) == ("failed", True, False)
    assert [event.kind for event in events] == ["worker_respawned"] * 9 + ["worker_failed"]
    assert all("out of luck" in event.message for event in events)
    assert events[-1].level == "error"


def test_an_occasionally_failing_worker_is_always_restarted(
    live: Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]],
) -> None:
    source = Failing(works_seconds=40.0)

    member, events = live(source, until=3600.0)

    assert len(source.spawned_at) > 40
    assert not member.is_given_up
    assert {event.kind for event in events} == {"worker_respawned"}
