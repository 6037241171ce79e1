"""Only components that crash or hang too often are abandoned, and the others continue."""

import os
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from idle_workers import AnsweringWorkers, state_of
from small_platform import SmallPlatform, served
from worker_bench import bench

from rolldeck.wire import FleetEvent, ReportedWorkerState
from rollouts.diagnosis.rules.problems import causes
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.worker_lifecycle import (
    GIVEN_UP_SECONDS,
    HANG_RULE,
    RESPAWN_RULE,
)
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.process.loops import EventLog, Loop, RestartBudget, RestartRule
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.env_process_pool import EnvProcessPool
from rollouts.fleet.steps.slots import Slots
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState
from tests.waiting import eventually

MakeSettings = Callable[..., FleetSettings]
MakeWorkerSettings = Callable[..., WorkerSettings]

SLOWER = 3
"""Factor by which a busy machine may be slower."""
QUICK = RestartRule(most_crashes=4, window_seconds=60.0, first_seconds=0.01, most_seconds=0.02)
COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0)
THRICE = RestartRule(most_crashes=3, window_seconds=3600.0, first_seconds=0.01, most_seconds=0.02)
WITH_CREDITS = WorkerCommand(desired="running", epoch=1, policy_step=0, credits=10)
REASON = "the policy did not return for 0.2 s (policy.hung_after_seconds)"
RULE = RestartRule(most_crashes=4, window_seconds=60.0, first_seconds=1.0, most_seconds=3.0)


def test_a_slow_environment_does_not_delay_the_inference_of_others(
    make_worker_settings: MakeWorkerSettings, tmp_path: Path
) -> None:
    settings = make_worker_settings(
        spec="one_slow:x", kwargs={"marker": str(tmp_path / "slow")}, envs_per_process=1
    )
    with bench(settings) as b:
        eventually(lambda: len({f.slot for f in b.fragments}) == 3)
        since = len(b.fragments)
        eventually(lambda: len(b.fragments) >= since + 60, 60.0)
        cut = Counter(fragment.slot for fragment in b.fragments[since:])

    # The slow environment takes two steps a second; a batch without it starts after 20 ms.
    *quick, slow = [cut.get(f"w0-{slot}@{settings.incarnation}", 0) for slot in range(4)]
    quick, slow = sorted([*quick, slow])[1:], min([*quick, slow])
    assert min(quick) > 3 * slow


def test_an_environment_that_hangs_is_replaced(
    make_worker_settings: MakeWorkerSettings, tmp_path: Path
) -> None:
    settings = make_worker_settings(
        spec="one_hangs:x",
        kwargs={"marker": str(tmp_path / "hung")},
        environment={"hung_after_seconds": 6.0},
        envs_per_process=4,
    )
    with bench(settings) as b:
        eventually((tmp_path / "hung").exists)
        [victim] = set(b.pids())
        eventually(lambda: len({f.slot for f in b.fragments}) == 4, 40.0)
        report = b.order().report

    assert {slot.pid for slot in report.slots} != {victim}
    assert set(b.events) == {"slot_restarted"}
    assert all(slot.restarts for slot in report.slots)


def test_each_killed_env_process_is_reported_once(make_worker_settings: MakeWorkerSettings) -> None:
    settings = make_worker_settings(spec="odd:counting", envs_per_process=1)
    with bench(settings) as b:
        eventually(lambda: len({f.slot for f in b.fragments}) == 4)
        before = b.pids()
        for pid in before[:2]:
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        eventually(lambda: not set(before[:2]) & set(b.pids()) and "restarting" not in b.slots())
        sent = len(b.fragments)
        eventually(lambda: len({f.slot for f in b.fragments[sent:]}) == 4)
        seconds = time.monotonic() - began
        restarts = [slot.restarts for slot in b.order().report.slots]
        after = b.pids()

    assert seconds < 5 * SLOWER
    assert b.events.count("slot_restarted") == 2
    assert restarts == [1, 1, 0, 0]
    assert after[2:] == before[2:]


def test_a_crashed_loop_is_an_event_and_restarted() -> None:
    events, turns = EventLog(), []

    def turn() -> None:
        turns.append(1)
        if len(turns) == 2:
            raise ValueError("stumbled")
        time.sleep(0.01)

    loop = Loop("walking", turn, events, rule=QUICK)
    loop.start()
    eventually(lambda: len(turns) > 5)
    loop.stop()
    loop.join(5.0)

    [event] = events.pop()
    assert (event.kind, event.level) == ("loop_crashed", "warning")
    assert "Loop walking: ValueError: stumbled" in event.message
    assert not loop.is_broken


def test_a_repeatedly_crashing_loop_is_broken_with_a_reason() -> None:
    events = EventLog()

    def turn() -> None:
        raise ValueError("stumbled")

    loop = Loop("walking", turn, events, rule=QUICK)
    loop.start()
    eventually(lambda: loop.is_broken)

    assert loop.error == "ValueError: stumbled"
    assert [event.level for event in events.pop()] == ["warning"] * 3 + ["error"]


class Mortal(LocalWorkers):
    """Worker source whose workers can be made unresponsive."""

    def __init__(self) -> None:
        self.handles: list[MortalHandle] = []

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        self.handles.append(MortalHandle(settings))
        return self.handles[-1]


class MortalHandle(LocalHandle):
    is_dead = False

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        if not self.is_dead:
            return super().submit(method, *arguments)
        dead: Future[Any] = Future()
        dead.set_exception(ConnectionError("the process is gone"))
        return dead


def test_steps_of_a_dead_worker_are_counted_as_lost(make_settings: MakeSettings) -> None:
    platform, source = SmallPlatform(), Mortal()
    platform.publish(0)
    slow = {"spec": "odd:counting", "kwargs": {"seconds": 0.02, "length": 1000}}
    with served(platform) as url:
        manager = RolloutManager(make_settings(url=url, fragment_length=500, **slow), source)
        try:
            eventually(lambda: platform.reports and platform.reports[-1].workers[0].env_steps > 40)
            known = platform.reports[-1].workers[0].env_steps
            source.handles[0].is_dead = True
            eventually(lambda: "worker_lost" in platform.reports[-1].workers[0].dropped_steps)
            lost = platform.reports[-1].workers[0].dropped_steps["worker_lost"]
            eventually(lambda: platform.reports[-1].workers[0].state == "running")
        finally:
            manager.shutdown()

    assert lost >= known
    assert platform.reports[-1].workers[0].dropped_steps["worker_lost"] == lost
    [respawn] = [event for event in platform.all_events() if event.kind == "worker_respawned"]
    assert respawn.message.endswith("ConnectionError: the process is gone")
    assert respawn.details["lost_steps"] == lost
    assert respawn.ending
    assert (respawn.ending.index, respawn.ending.lost_steps) == (0, lost)
    assert respawn.ending.reason == "ConnectionError: the process is gone"
    assert respawn.ending.pid == os.getpid()


class UnwillingToShare(LocalWorkers):
    """Worker source that cannot share weights."""

    def share(self, _: object) -> object:
        raise MemoryError("the object store is full")


def test_a_manager_whose_loop_is_broken_reports_failed_and_is_launched_again(
    make_settings: MakeSettings,
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(url=url)
        manager = RolloutManager(settings, UnwillingToShare(), loop_rule=QUICK)
        try:
            eventually(lambda: platform.reports and platform.reports[-1].state == "failed")
        finally:
            manager.shutdown()

    failed = [report for report in platform.reports if report.state == "failed"]
    assert failed[0].reason == "loop weights gave up: MemoryError: the object store is full"


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


class Failing(AnsweringWorkers):
    """Workers that run for a while and then fail, in simulated time; a later one may run on."""

    def __init__(self, *, works_seconds: float, recovers_after: int = 1_000_000) -> None:
        super().__init__(self._state)
        self.now = 0.0
        self.spawned_at: list[float] = []
        self._works_seconds = works_seconds
        self._recovers_after = recovers_after

    def spawn(self, settings: WorkerSettings) -> AnsweringWorkers:
        self.spawned_at.append(self.now)
        return super().spawn(settings)

    def _state(self) -> WorkerState:
        works = self.now - self.spawned_at[-1] < self._works_seconds
        works |= len(self.spawned_at) > self._recovers_after
        return state_of("running") if works else state_of("failed", reason="out of luck")


@pytest.fixture
def live(make_settings: MakeSettings) -> Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]]:
    """Run turns of a supervisor up to a time; return it and its events."""

    def through(source: Failing, *, until: float) -> tuple[WorkerSupervisor, list[FleetEvent]]:
        events = EventLog()
        member = WorkerSupervisor(0, settings=make_settings(), source=source, events=events)
        while source.now < until:
            member.turn(source.now)
            member.give(COMMAND, source.now)
            source.now += 0.1
        return member, events.pop()

    return through


def test_a_worker_lost_ten_times_is_abandoned_for_five_minutes(
    live: Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]],
) -> None:
    source = Failing(works_seconds=0.0)

    member, events = live(source, until=GIVEN_UP_SECONDS)

    assert len(source.spawned_at) == RESPAWN_RULE.most_crashes
    waits = [later - earlier for earlier, later in pairwise(source.spawned_at)]
    # Each wait is twice the previous one, within two turns, up to the maximum.
    expected = [min(20.0, 0.2 * 2.0**crash) for crash in range(len(waits))]
    assert waits == pytest.approx(expected, abs=0.35)
    assert (member.condition, member.is_given_up, member.cannot_recover) == ("failed", True, False)
    assert [event.kind for event in events] == ["worker_respawned"] * 9 + ["worker_failed"]
    assert all("out of luck" in event.message for event in events)
    assert "given up for 300 s" in events[-1].message
    assert events[-1].level == "error"


def test_an_abandoned_worker_starts_again_after_five_minutes(
    live: Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]],
) -> None:
    source = Failing(works_seconds=0.0, recovers_after=RESPAWN_RULE.most_crashes)

    member, events = live(source, until=2 * GIVEN_UP_SECONDS)

    assert len(source.spawned_at) == RESPAWN_RULE.most_crashes + 1
    assert source.spawned_at[-1] - source.spawned_at[-2] == pytest.approx(
        GIVEN_UP_SECONDS, abs=0.35
    )
    assert not member.is_given_up
    assert [event.kind for event in events].count("worker_failed") == 1


def test_an_occasionally_failing_worker_is_always_restarted(
    live: Callable[..., tuple[WorkerSupervisor, list[FleetEvent]]],
) -> None:
    source = Failing(works_seconds=40.0)

    member, events = live(source, until=3600.0)

    assert len(source.spawned_at) > 40
    assert not member.is_given_up
    assert {event.kind for event in events} == {"worker_respawned"}


class HangingPolicy:
    """Policy whose `act` never returns; its thread ends with the process."""

    def initial_state(self, _: int) -> dict[str, Any]:
        return {}

    def prepare(self, tensors: Any) -> Any:
        return tensors

    def adopt(self, _: object) -> None:
        """Accept any weights."""

    def act(self, *_: object) -> Any:
        return threading.Event().wait()


class HangingWorkers(LocalWorkers):
    """Source of workers in this process, whose policy hangs."""

    def __init__(self) -> None:
        self.spawned = 0

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        self.spawned += 1
        handle = LocalHandle.__new__(LocalHandle)
        handle._wrapper = RolloutWorkerWrapper(
            settings,
            push=lambda _: pytest.fail("a fragment was sent"),
            policy_factory=lambda *_: HangingPolicy(),
        )
        handle._wrapper.update_weights(WeightsRecord(epoch=1, step=0, tensors={}))
        return handle


def test_a_worker_whose_policy_hangs_is_replaced_and_then_abandoned(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RolloutWorkerWrapper, "close_seconds", 0.05)
    settings = make_settings(policy={"hung_after_seconds": 0.2}, envs_in_worker=True)
    source, events = HangingWorkers(), EventLog()
    worker = WorkerSupervisor(0, settings=settings, source=source, events=events)
    deadline = time.monotonic() + 60.0
    while not worker.is_given_up:
        assert time.monotonic() < deadline
        now = time.monotonic()
        worker.turn(now)
        worker.give(WITH_CREDITS, now)
        time.sleep(0.02)

    found = events.pop()
    kinds = [event.kind for event in found if event.kind.startswith("worker_")]
    assert kinds == ["worker_respawned"] * (source.spawned - 1) + ["worker_failed"]
    assert source.spawned == HANG_RULE.most_crashes
    assert all(REASON in event.message for event in found if event.kind in kinds)
    report = worker.report(0)
    assert (report.state, report.reason) == ("failed", REASON)
    assert msgspec.msgpack.encode(report)


@pytest.mark.parametrize(("state", "limit"), [("starting", 180.0), ("running", 15.0)])
def test_a_starting_worker_has_a_longer_timeout(
    make_settings: MakeSettings, state: ReportedWorkerState, limit: float
) -> None:
    # It answers the first command and none of the following.
    answers = iter([state_of(state)])
    source, events = AnsweringWorkers(lambda: next(answers, None)), EventLog()
    worker = WorkerSupervisor(0, settings=make_settings(), source=source, events=events)
    worker.turn(0.0)
    worker.give(COMMAND, 0.0)
    worker.turn(0.1)
    worker.give(COMMAND, 0.1)

    worker.turn(limit)
    assert worker.report(0).state == state

    worker.turn(limit + 1)
    reported = worker.report(0)
    assert (reported.state, reported.reason) == ("respawning", f"did not answer for {limit:.0f} s")


def test_each_crash_doubles_the_wait_up_to_the_cap() -> None:
    budget = RestartBudget(RULE)

    assert [budget.crashed(at) for at in (0.0, 1.0, 2.0)] == [1.0, 2.0, 3.0]


def test_a_crash_loop_is_broken() -> None:
    budget = RestartBudget(RULE)
    waits = [budget.crashed(at) for at in (0.0, 1.0, 2.0, 3.0)]

    assert waits[-1] is None


def test_crashes_outside_the_window_are_counted_only_in_total() -> None:
    budget = RestartBudget(RULE)
    waits = [budget.crashed(at) for at in (0.0, 100.0, 200.0, 300.0, 400.0)]

    assert waits == [1.0] * 5
    assert budget.total == 5
