"""A requested restart of a worker loses and duplicates no fragments."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from small_platform import SmallPlatform, served

from rolldeck.operator_requests import RestartCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


class FailingWorkers:
    """Workers that report a failure which any successor would repeat."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def spawn(self, _: object) -> "FailingWorkers":
        return self

    def submit(self, method: str, *_: object) -> "Future[Any]":
        self.calls.append(method)
        report = WorkerReport(index=0, incarnation="a", state="failed", reason="no luck")
        future: Future[Any] = Future()
        future.set_result(
            WorkerState(
                report=report,
                unspent=0,
                outstanding=0,
                accepted=0,
                is_drained=True,
                cannot_recover=True,
            )
        )
        return future

    def kill(self) -> None:
        """Do nothing: the worker has ended."""

    def obstacle(self) -> str:
        return ""

    def fail(self, member: WorkerSupervisor, *, now: float) -> None:
        member.give(WorkerCommand(desired="running", epoch=1, policy_step=0), now)
        member.turn(now)


def workers(platform: SmallPlatform) -> list[WorkerReport]:
    return [worker for report in platform.reports[-1:] for worker in report.workers]


def test_a_worker_is_replaced_by_a_successor_that_continues(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=2)):
        eventually(lambda: [worker.env_steps > 50 for worker in workers(platform)] == [True, True])
        old = [worker.incarnation for worker in workers(platform)]
        platform.restarts = [RestartCommand(worker=0, incarnation=old[0], reason="it drifts")]

        eventually(lambda: workers(platform)[0].incarnation != old[0])
        # The order stays until the platform knows the successor, which must not be restarted.
        eventually(lambda: workers(platform)[0].env_steps > 50)

        new = workers(platform)
        assert [worker.state for worker in new] == ["running", "running"]
        assert new[1].incarnation == old[1]

    [restart] = [event for event in platform.all_events() if event.kind == "worker_restarted"]
    assert restart.message == "Worker 0 is replaced: it drifts"
    assert restart.ending is not None
    assert restart.ending.incarnation == old[0]
    assert platform.events().count("worker_respawned") == 0
    for slot in {slot for slot, _ in platform.order}:
        numbers = [number for name, number in platform.order if name == slot]
        assert numbers == list(range(len(numbers)))
    assert platform.duplicates == 0


def test_steps_of_fragments_that_were_not_full_are_counted_as_lost(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    # No fragment is cut before the restart.
    with served(platform) as url, LocalFleet(make_settings(url=url, fragment_length=4000)):
        eventually(lambda: [worker.env_steps > 50 for worker in workers(platform)] == [True])
        before = workers(platform)[0]
        platform.restarts = [RestartCommand(worker=0, incarnation=before.incarnation)]

        eventually(lambda: workers(platform)[0].dropped_steps.get("worker_lost", 0) > 0)

    [restart] = [event for event in platform.all_events() if event.kind == "worker_restarted"]
    assert restart.ending is not None
    # Each of the four slots may have had one step in progress.
    assert 0 <= restart.ending.lost_steps - restart.ending.env_steps <= 4
    assert workers(platform)[0].dropped_steps["worker_lost"] == restart.ending.lost_steps


def test_an_abandoned_worker_can_be_restarted(make_settings: MakeSettings) -> None:
    source = FailingWorkers()
    member = WorkerSupervisor(0, settings=make_settings(), source=source, events=EventLog())  # type: ignore[arg-type]
    member.turn(0.0)
    source.fail(member, now=0.1)
    assert member.is_given_up
    before = member.incarnation

    member.restart(RestartCommand(worker=0, incarnation=before), 1.0)
    member.turn(1.0)

    assert not member.is_given_up
    assert member.incarnation != before
    assert member.report(0).state == "respawning"


def test_a_command_for_another_incarnation_is_ignored(make_settings: MakeSettings) -> None:
    source = FailingWorkers()
    member = WorkerSupervisor(0, settings=make_settings(), source=source, events=EventLog())  # type: ignore[arg-type]
    member.turn(0.0)
    before = member.incarnation

    member.restart(RestartCommand(worker=0, incarnation="another"), 1.0)
    member.turn(1.0)
    member.turn(20.0)

    assert member.incarnation == before
    assert source.calls == []
