"""Crashes, hangs and slow starts are detected, reported once, and do not delay others."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from small_platform import SmallPlatform, served
from worker_bench import bench

from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.process.loops import EventLog, Loop, RestartRule
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]
MakeWorkerSettings = Callable[..., WorkerSettings]

SLOWER = 3
"""Factor by which a busy machine may be slower."""
QUICK = RestartRule(most_crashes=4, window_seconds=60.0, first_seconds=0.01, most_seconds=0.02)


def test_a_slow_environment_does_not_delay_the_inference_of_others(
    make_worker_settings: MakeWorkerSettings, eventually: Eventually, tmp_path: Path
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
    make_worker_settings: MakeWorkerSettings, eventually: Eventually, tmp_path: Path
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


def test_each_killed_env_process_is_reported_once(
    make_worker_settings: MakeWorkerSettings, eventually: Eventually
) -> None:
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


def test_a_crashed_loop_is_an_event_and_restarted(eventually: Eventually) -> None:
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


def test_a_repeatedly_crashing_loop_is_broken_with_a_reason(
    eventually: Eventually,
) -> None:
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


def test_steps_of_a_dead_worker_are_counted_as_lost(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
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
    make_settings: MakeSettings, eventually: Eventually
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
