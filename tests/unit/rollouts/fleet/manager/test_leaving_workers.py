"""Restarted, cordoned and surplus workers lose and duplicate no fragments."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from idle_workers import AnsweringWorkers, IdleWorker, IdleWorkers, state_of
from msgspec.structs import replace
from small_platform import SmallPlatform, running, served

from buffer.ingest.rules.fragments import real_steps
from rolldeck.operator_requests import CordonCommand, MachineCommand, RestartCommand
from rollouts.fleet.manager import worker_lifecycle
from rollouts.fleet.manager.manager import LocalFleet, RolloutManager
from rollouts.fleet.manager.worker_pool import WorkerPool
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.spool import sender
from rollouts.fleet.worker.messages import WorkerCommand
from tests.waiting import eventually

MakeSettings = Callable[..., FleetSettings]
HOT = MachineCommand(node="north", host="gpu-1", reason="its fan is loud")


@pytest.fixture
def failing() -> AnsweringWorkers:
    """Workers that report a failure which any successor would repeat."""
    state = {"is_drained": True, "cannot_recover": True}
    return AnsweringWorkers(lambda: state_of("failed", reason="no luck", **state))


def test_a_worker_is_replaced_by_a_successor_that_continues(make_settings: MakeSettings) -> None:
    with running(make_settings, num_workers=2) as platform:
        eventually(lambda: [worker.env_steps > 50 for worker in platform.workers()] == [True, True])
        old = [worker.incarnation for worker in platform.workers()]
        platform.restarts = [RestartCommand(worker=0, incarnation=old[0], reason="it drifts")]

        eventually(lambda: platform.workers()[0].incarnation != old[0])
        # The order stays until the platform knows the successor, which must not be restarted.
        eventually(lambda: platform.workers()[0].env_steps > 50)

        new = platform.workers()
        assert [worker.state for worker in new] == ["running", "running"]
        assert new[1].incarnation == old[1]

    [restart] = [event for event in platform.all_events() if event.kind == "worker_restarted"]
    assert restart.message == "Worker 0 is replaced: it drifts"
    assert restart.ending is not None
    assert restart.ending.incarnation == old[0]
    assert platform.events().count("worker_respawned") == 0
    assert platform.is_in_order()
    assert platform.duplicates == 0


def test_steps_of_fragments_that_were_not_full_are_counted_as_lost(
    make_settings: MakeSettings,
) -> None:
    # No fragment is cut before the restart.
    with running(make_settings, fragment_length=4000) as platform:
        eventually(lambda: [worker.env_steps > 50 for worker in platform.workers()] == [True])
        before = platform.workers()[0]
        platform.restarts = [RestartCommand(worker=0, incarnation=before.incarnation)]

        eventually(lambda: platform.workers()[0].dropped_steps.get("worker_lost", 0) > 0)

    [restart] = [event for event in platform.all_events() if event.kind == "worker_restarted"]
    assert restart.ending is not None
    # Each of the four slots may have had one step in progress.
    assert 0 <= restart.ending.lost_steps - restart.ending.env_steps <= 4
    assert platform.workers()[0].dropped_steps["worker_lost"] == restart.ending.lost_steps


def test_an_abandoned_worker_can_be_restarted(
    make_settings: MakeSettings, failing: AnsweringWorkers
) -> None:
    member = WorkerSupervisor(0, settings=make_settings(), source=failing, events=EventLog())
    member.turn(0.0)
    member.give(WorkerCommand(desired="running", epoch=1, policy_step=0), 0.1)
    member.turn(0.1)
    assert member.is_given_up
    before = member.incarnation

    member.restart(RestartCommand(worker=0, incarnation=before), 1.0)
    member.turn(1.0)

    assert not member.is_given_up
    assert member.incarnation != before
    assert member.report(0).state == "respawning"


def test_a_command_for_another_incarnation_is_ignored(
    make_settings: MakeSettings, failing: AnsweringWorkers
) -> None:
    member = WorkerSupervisor(0, settings=make_settings(), source=failing, events=EventLog())
    member.turn(0.0)
    before = member.incarnation

    member.restart(RestartCommand(worker=0, incarnation="another"), 1.0)
    member.turn(1.0)
    member.turn(20.0)

    assert member.incarnation == before
    assert failing.calls == []


def states(platform: SmallPlatform) -> list[tuple[int, str]]:
    return [(worker.index, worker.state) for worker in platform.workers()]


def slots_of(platform: SmallPlatform, worker: int) -> list[tuple[str, int]]:
    return [key for key in list(platform.order) if key[0].startswith(f"w{worker}-")]


def test_a_fleet_grows_to_the_desired_size(make_settings: MakeSettings) -> None:
    with running(make_settings) as platform:
        eventually(lambda: states(platform) == [(0, "running")])
        platform.num_workers = 3
        eventually(lambda: states(platform) == [(0, "running"), (1, "running"), (2, "running")])
        eventually(lambda: slots_of(platform, 2))


def test_a_surplus_worker_flushes_and_ends(make_settings: MakeSettings) -> None:
    slow = {"spec": "odd:counting", "kwargs": {"seconds": 0.005, "length": 1000}}
    with running(make_settings, num_workers=2, fragment_length=500, **slow) as platform:
        eventually(lambda: all(w.env_steps > 20 for w in platform.workers()) and platform.workers())
        platform.num_workers = 1
        eventually(lambda: states(platform) == [(0, "running")])
        assert platform.reports[-1].state == "running"

        platform.num_workers = 2
        eventually(lambda: states(platform) == [(0, "running"), (1, "running")])
        eventually(lambda: platform.workers()[1].env_steps > 0)

    last = [w for r in platform.reports for w in r.workers if w.state == "stopped" and w.index == 1]
    sent = [platform.fragments[key] for key in slots_of(platform, 1)]
    mine = [fragment for fragment in sent if fragment.worker.endswith(last[0].incarnation)]
    assert len(mine) == 4
    assert sum(map(real_steps, mine)) == last[0].env_steps
    assert last[0].dropped_steps == {}
    assert platform.events().count("worker_left") == 1
    aborted = [e for r in platform.reports for e in r.episodes if e.worker == 1]
    assert sum(window.aborted for window in aborted) >= 4


def test_a_fleet_shrinks_while_it_is_paused(make_settings: MakeSettings) -> None:
    with running(make_settings, num_workers=3) as platform:
        eventually(lambda: [state for _, state in states(platform)] == ["running"] * 3)
        platform.desired = "paused"
        eventually(lambda: [state for _, state in states(platform)] == ["paused"] * 3)
        platform.num_workers = 1
        eventually(lambda: states(platform) == [(0, "paused")])
        assert platform.reports[-1].state == "paused"


def test_fragments_of_a_worker_that_ends_in_an_outage_are_sent_later(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lifecycle, "LEAVE_SECONDS", 0.5)
    monkeypatch.setattr(sender, "POLL_SECONDS", 0.2)
    platform = SmallPlatform()
    platform.publish(0)
    with (
        served(platform) as url,
        LocalFleet(make_settings(url=url, num_workers=2)) as fleet,
    ):
        eventually(lambda: [state for _, state in states(platform)] == ["running"] * 2)
        eventually(lambda: slots_of(platform, 1))
        platform.status = 503
        eventually(lambda: fleet.snapshot().workers[1].to_send > 0)
        platform.num_workers = 1
        eventually(lambda: fleet.snapshot().workers[1].state == "stopped")
        sent = len(slots_of(platform, 1))
        platform.status = 0
        eventually(lambda: states(platform) == [(0, "running")], 30.0)
        eventually(lambda: len(slots_of(platform, 1)) > sent)
    assert platform.is_in_order()


def cordons(platform: SmallPlatform) -> list[tuple[str, bool]]:
    return [(worker.state, worker.is_cordoned) for worker in platform.workers()]


def test_a_cordoned_worker_flushes_ends_and_is_not_replaced(make_settings: MakeSettings) -> None:
    # No fragment is complete before the drain.
    with running(make_settings, num_workers=2, fragment_length=4000) as platform:
        eventually(lambda: [worker.env_steps > 50 for worker in platform.workers()] == [True, True])
        old = [worker.incarnation for worker in platform.workers()]
        platform.cordons = [CordonCommand(worker=0, reason="its node is hot")]

        eventually(lambda: cordons(platform) == [("stopped", True), ("running", False)])

        assert platform.workers()[0].reason == "cordoned: its node is hot"
        assert "worker_lost" not in platform.workers()[0].dropped_steps
        assert {slot.rsplit("@")[-1] for slot, _ in platform.fragments} == {old[0]}
        assert platform.reports[-1].state == "running"
        platform.cordons = []
        eventually(lambda: cordons(platform) == [("running", False), ("running", False)])
        assert platform.workers()[0].incarnation != old[0]
        assert platform.workers()[1].incarnation == old[1]

    kinds = platform.events()
    assert (kinds.count("worker_cordoned"), kinds.count("worker_out")) == (1, 1)
    assert kinds.count("worker_respawned") == 0
    assert platform.messages("worker_out") == [
        "Worker 0 has ended and is not replaced: it was cordoned"
    ]
    assert platform.duplicates == 0


def test_a_fully_cordoned_fleet_is_paused_and_can_be_drained(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    platform.cordons = [CordonCommand(worker=0)]
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        eventually(lambda: cordons(platform) == [("stopped", True)])
        eventually(lambda: platform.reports[-1].state == "paused")
        assert platform.reports[-1].reason == "every worker is cordoned"

        platform.desired = "draining"

        eventually(lambda: platform.reports[-1].state == "drained")


@pytest.fixture
def member(make_settings: MakeSettings) -> WorkerSupervisor:
    supervisor = WorkerSupervisor(
        0, settings=make_settings(), source=IdleWorkers(), events=EventLog()
    )
    supervisor.turn(0.0)
    return supervisor


def state_after_report(member: WorkerSupervisor, *, now: float) -> str:
    """Send a command and process the answer; return the worker's state."""
    member.give(WorkerCommand(desired="running", epoch=1, policy_step=0), now)
    member.turn(now)
    return member.condition


def test_a_cordon_lifted_during_the_drain_admits_a_successor(member: WorkerSupervisor) -> None:
    state_after_report(member, now=1.0)
    before = member.incarnation
    member.cordon(CordonCommand(worker=0), 2.0)
    assert state_after_report(member, now=2.0) == "draining"

    member.cordon(None, 2.1)
    for tenths in range(22, 30):
        state_after_report(member, now=tenths / 10)

    assert member.incarnation != before
    assert not member.report(0).is_cordoned


def test_a_cordon_during_a_restart_does_not_drain_the_successor(member: WorkerSupervisor) -> None:
    state_after_report(member, now=1.0)
    member.restart(RestartCommand(worker=0, incarnation=member.incarnation), 2.0)
    member.cordon(CordonCommand(worker=0), 2.0)
    member.turn(2.1)
    assert member.is_out

    member.cordon(None, 3.0)
    member.turn(3.0)

    assert state_after_report(member, now=3.1) == "running"


def test_a_cordon_of_a_worker_has_no_time_limit(member: WorkerSupervisor) -> None:
    member.cordon(CordonCommand(worker=0), 1.0)
    before = member.incarnation

    for tenths in range(10, 400):
        state_after_report(member, now=tenths / 10)

    assert member.is_out
    assert member.incarnation == before
    assert member.report(0).state == "stopped"


class Machines(LocalWorkers):
    """Starts workers in this process, on the first machine that is not cordoned."""

    def __init__(self) -> None:
        self.closed: frozenset[str] = frozenset()

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        self.closed = nodes

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        [node, *_] = [name for name in ("north", "south") if name not in self.closed]
        return LocalHandle(replace(settings, node_id=node))


def places(platform: SmallPlatform) -> list[tuple[str, str]]:
    return [(worker.state, worker.node_id) for worker in platform.workers()]


def test_workers_of_a_cordoned_machine_flush_and_restart_on_another(
    make_settings: MakeSettings,
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=2, fragment_length=2000)
        manager = RolloutManager(settings, Machines(), node_id="south")
        try:
            eventually(
                lambda: [worker.env_steps > 50 for worker in platform.workers()] == [True, True]
            )
            assert places(platform) == [("running", "north")] * 2
            old = {worker.incarnation for worker in platform.workers()}
            platform.machines = [HOT]

            eventually(lambda: places(platform) == [("running", "south")] * 2)

            now = platform.workers()
            assert not old & {worker.incarnation for worker in now}
            assert not any("worker_lost" in worker.dropped_steps for worker in now)
            # The old workers sent complete fragments, without duplicates.
            assert {slot.rsplit("@")[-1] for slot, _ in platform.fragments} >= old
            assert platform.reports[-1].node_id == "south"
            platform.machines = []
            eventually(lambda: manager.snapshot().state == "running")
            assert {worker.incarnation for worker in platform.workers()} == {
                worker.incarnation for worker in now
            }
        finally:
            manager.shutdown()

    kinds = platform.events()
    assert (kinds.count("worker_leaves_machine"), kinds.count("worker_out")) == (2, 2)
    assert kinds.count("worker_respawned") == 0
    assert sorted(platform.messages("worker_out")) == [
        f"Worker {index} has ended and is replaced: its machine gpu-1 is cordoned: its fan is loud"
        for index in (0, 1)
    ]
    assert platform.duplicates == 0


class WorkerPlacement(IdleWorkers):
    """Worker source with machines; a worker without placement waits."""

    def __init__(self, **seats: int) -> None:
        self.seats = seats
        self.closed: frozenset[str] = frozenset()
        self.requested: list[frozenset[str]] = []
        """Excluded machines of each spawn, in order."""

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        self.closed = nodes

    def spawn(self, settings: WorkerSettings) -> IdleWorker:
        self.requested.append(self.closed)
        free = [name for name, left in self.seats.items() if left and name not in self.closed]
        if not free:
            return Waiting(settings)
        self.seats[free[0]] -= 1
        return Seated(settings, self, free[0])


class Seated(IdleWorker):
    """A worker that reports its machine."""

    def __init__(self, settings: WorkerSettings, seats: WorkerPlacement, node: str) -> None:
        super().__init__(settings, node_id=node)
        self._placement, self._node, self._is_there = seats, node, True

    def kill(self) -> None:
        if self._is_there:
            self._is_there, self._placement.seats[self._node] = False, 1


class Waiting(IdleWorker):
    """A worker without placement, which never answers."""

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        del method, arguments
        return Future()

    def is_placed(self) -> bool:
        return False

    def obstacle(self) -> str:
        return "a worker needs 1 CPU, 0 of 1 are free"


@pytest.fixture
def seats() -> WorkerPlacement:
    return WorkerPlacement(north=1, south=1)


@pytest.fixture
def roster(make_settings: MakeSettings, seats: WorkerPlacement) -> WorkerPool:
    return WorkerPool(settings=make_settings(num_workers=2), source=seats, events=EventLog())


def turns(roster: WorkerPool, seconds: range, *machines: MachineCommand, **more: Any) -> None:
    for now in seconds:
        roster.cordon(more.get("cordons", []), float(now))
        roster.vacate(machines, float(now))
        roster.turn(float(now))
        for member in roster.members:
            member.give(WorkerCommand(desired="running", epoch=1, policy_step=0), float(now))


def nodes(roster: WorkerPool) -> list[str]:
    return [report.node_id for report in roster.reports(0)]


def test_without_other_room_the_successor_waits_with_a_reason(
    roster: WorkerPool, seats: WorkerPlacement
) -> None:
    turns(roster, range(1, 5))
    assert nodes(roster) == ["north", "south"]

    turns(roster, range(5, 30), HOT)

    assert nodes(roster) == ["", "south"]
    waiting = roster.members[0]
    assert waiting.condition == "respawning"
    assert waiting.obstacle == "a worker needs 1 CPU, 0 of 1 are free"
    assert seats.seats == {"north": 1, "south": 0}

    # After the cordon is lifted, the worker is no longer restricted.
    turns(roster, range(30, 40))
    assert nodes(roster) == ["north", "south"]
    assert seats.requested == [frozenset(), frozenset(), frozenset({"north"}), frozenset()]


def test_a_leaving_worker_is_reported_as_leaving_and_not_as_cordoned(roster: WorkerPool) -> None:
    turns(roster, range(1, 5))

    turns(roster, range(5, 6), HOT)

    report = roster.reports(0)[0]
    assert report.reason == "its machine gpu-1 is cordoned: its fan is loud"
    assert not report.is_cordoned


def test_a_cordoned_worker_has_no_successor_on_another_machine(roster: WorkerPool) -> None:
    turns(roster, range(1, 5))
    kept_out = [CordonCommand(worker=0, reason="look at it")]

    turns(roster, range(5, 30), HOT, cordons=kept_out)

    assert roster.members[0].is_out
    assert roster.reports(0)[0].reason == "cordoned: look at it"


def test_a_manager_launched_with_a_cordon_places_no_worker_there(
    make_settings: MakeSettings, seats: WorkerPlacement
) -> None:
    settings = replace(make_settings(num_workers=1), closed_nodes=["north"])

    roster = WorkerPool(settings=settings, source=seats, events=EventLog())
    for now in (1.0, 2.0):
        roster.turn(now)
        for member in roster.members:
            member.give(WorkerCommand(desired="running", epoch=1, policy_step=0), now)

    assert seats.requested == [frozenset({"north"})]


def test_a_run_is_drained_while_its_machine_is_cordoned(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        manager = RolloutManager(make_settings(url=url), Machines())
        try:
            eventually(lambda: [worker.env_steps > 10 for worker in platform.workers()] == [True])
            platform.desired, platform.machines = "draining", [HOT]
            eventually(lambda: platform.reports[-1].state == "drained")
        finally:
            manager.shutdown()
    assert platform.duplicates == 0
