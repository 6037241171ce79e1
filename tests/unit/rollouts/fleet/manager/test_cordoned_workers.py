"""Cordons keep workers out without lost or duplicate fragments."""

from collections.abc import Callable

import pytest
from idle_workers import IdleWorkers
from small_platform import SmallPlatform, served

from rolldeck.operator_requests import CordonCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.worker.messages import WorkerCommand

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


def workers(platform: SmallPlatform) -> list[WorkerReport]:
    return [worker for report in platform.reports[-1:] for worker in report.workers]


def states(platform: SmallPlatform) -> list[tuple[str, bool]]:
    return [(worker.state, worker.is_cordoned) for worker in workers(platform)]


def test_a_cordoned_worker_flushes_ends_and_is_not_replaced(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    # No fragment is complete before the drain.
    with (
        served(platform) as url,
        LocalFleet(make_settings(url=url, num_workers=2, fragment_length=4000)),
    ):
        eventually(lambda: [worker.env_steps > 50 for worker in workers(platform)] == [True, True])
        old = [worker.incarnation for worker in workers(platform)]
        platform.cordons = [CordonCommand(worker=0, reason="its node is hot")]

        eventually(lambda: states(platform) == [("stopped", True), ("running", False)])

        assert workers(platform)[0].reason == "cordoned: its node is hot"
        assert "worker_lost" not in workers(platform)[0].dropped_steps
        assert {slot.rsplit("@")[-1] for slot, _ in platform.fragments} == {old[0]}
        assert platform.reports[-1].state == "running"
        platform.cordons = []
        eventually(lambda: states(platform) == [("running", False), ("running", False)])
        assert workers(platform)[0].incarnation != old[0]
        assert workers(platform)[1].incarnation == old[1]

    kinds = platform.events()
    assert (kinds.count("worker_cordoned"), kinds.count("worker_out")) == (1, 1)
    assert kinds.count("worker_respawned") == 0
    assert platform.messages("worker_out") == [
        "Worker 0 has ended and is not replaced: it was cordoned"
    ]
    assert platform.duplicates == 0


def test_a_fully_cordoned_fleet_is_paused_and_can_be_drained(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    platform.cordons = [CordonCommand(worker=0)]
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        eventually(lambda: states(platform) == [("stopped", True)])
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


def test_a_cordon_lifted_during_the_drain_admits_a_successor(
    member: WorkerSupervisor,
) -> None:
    state_after_report(member, now=1.0)
    before = member.incarnation
    member.cordon(CordonCommand(worker=0), 2.0)
    assert state_after_report(member, now=2.0) == "draining"

    member.cordon(None, 2.1)
    for tenths in range(22, 30):
        state_after_report(member, now=tenths / 10)

    assert member.incarnation != before
    assert not member.report(0).is_cordoned


def test_a_cordon_of_a_worker_has_no_time_limit(member: WorkerSupervisor) -> None:
    member.cordon(CordonCommand(worker=0), 1.0)
    before = member.incarnation

    for tenths in range(10, 400):
        state_after_report(member, now=tenths / 10)

    assert member.is_out
    assert member.incarnation == before
    assert member.report(0).state == "stopped"
