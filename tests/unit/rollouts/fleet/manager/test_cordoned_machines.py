"""Workers on a cordoned machine finish, end, and restart on another machine."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from idle_workers import IdleWorker, IdleWorkers
from msgspec.structs import replace
from small_platform import SmallPlatform, served

from rolldeck.operator_requests import CordonCommand, MachineCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.worker_pool import WorkerPool
from rollouts.fleet.manager.workers import LocalHandle, LocalWorkers, WorkerHandle
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.worker.messages import WorkerCommand

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]
HOT = MachineCommand(node="north", host="gpu-1", reason="its fan is loud")


class Machines(LocalWorkers):
    """Starts workers in this process, on the first machine that is not cordoned."""

    def __init__(self) -> None:
        self.closed: frozenset[str] = frozenset()

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        self.closed = nodes

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        [node, *_] = [name for name in ("north", "south") if name not in self.closed]
        return LocalHandle(replace(settings, node_id=node))


def workers(platform: SmallPlatform) -> list[WorkerReport]:
    return [worker for report in platform.reports[-1:] for worker in report.workers]


def places(platform: SmallPlatform) -> list[tuple[str, str]]:
    return [(worker.state, worker.node_id) for worker in workers(platform)]


def test_workers_of_a_cordoned_machine_flush_and_restart_on_another(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=2, fragment_length=2000)
        manager = RolloutManager(settings, Machines(), node_id="south")
        try:
            eventually(
                lambda: [worker.env_steps > 50 for worker in workers(platform)] == [True, True]
            )
            assert places(platform) == [("running", "north")] * 2
            old = {worker.incarnation for worker in workers(platform)}
            platform.machines = [HOT]

            eventually(lambda: places(platform) == [("running", "south")] * 2)

            now = workers(platform)
            assert not old & {worker.incarnation for worker in now}
            assert not any("worker_lost" in worker.dropped_steps for worker in now)
            # The old workers sent complete fragments, without duplicates.
            assert {slot.rsplit("@")[-1] for slot, _ in platform.fragments} >= old
            assert platform.reports[-1].node_id == "south"
            platform.machines = []
            eventually(lambda: manager.snapshot().state == "running")
            assert {worker.incarnation for worker in workers(platform)} == {
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


def test_a_cordoned_worker_has_no_successor_on_another_machine(
    roster: WorkerPool,
) -> None:
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


def test_a_run_is_drained_while_its_machine_is_cordoned(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        manager = RolloutManager(make_settings(url=url), Machines())
        try:
            eventually(lambda: [worker.env_steps > 10 for worker in workers(platform)] == [True])
            platform.desired, platform.machines = "draining", [HOT]
            eventually(lambda: platform.reports[-1].state == "drained")
        finally:
            manager.shutdown()
    assert platform.duplicates == 0
