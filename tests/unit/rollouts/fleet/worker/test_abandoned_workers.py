"""A worker is reported as abandoned only after the event with the reason."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState

MakeFleetSettings = Callable[..., FleetSettings]
COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0)


def failed(*, cannot_recover: bool) -> WorkerState:
    report = WorkerReport(index=0, incarnation="a", state="failed", reason="no luck", env_steps=7)
    return WorkerState(
        report=report,
        unspent=0,
        outstanding=0,
        accepted=3,
        is_drained=True,
        cannot_recover=cannot_recover,
    )


class WatchedWorkers:
    """Workers that fail at once, and record the state of their supervisor when killed."""

    def __init__(self, *, cannot_recover: bool) -> None:
        self.member: WorkerSupervisor | None = None
        self.seen: list[tuple[str, bool]] = []
        self._answer = failed(cannot_recover=cannot_recover)

    def spawn(self, _: object) -> "WatchedWorkers":
        return self

    def submit(self, *_: object) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(self._answer)
        return future

    def kill(self) -> None:
        self.observe()

    def obstacle(self) -> str:
        return ""

    def observe(self) -> None:
        assert self.member is not None
        self.seen.append((self.member.condition, self.member.is_given_up))


class WatchedEvents(EventLog):
    """Event log that records the state of the supervisor before each event."""

    def __init__(self, workers: WatchedWorkers) -> None:
        super().__init__()
        self._workers = workers

    def add(self, kind: str, message: str, **details: Any) -> None:
        self._workers.observe()
        super().add(kind, message, **details)


@pytest.mark.parametrize(("cannot_recover", "after"), [(True, "failed"), (False, "respawning")])
def test_a_report_during_a_restart_never_shows_an_abandoned_worker(
    make_settings: MakeFleetSettings, *, cannot_recover: bool, after: str
) -> None:
    workers = WatchedWorkers(cannot_recover=cannot_recover)
    events = WatchedEvents(workers)
    member = WorkerSupervisor(0, settings=make_settings(), source=workers, events=events)  # type: ignore[arg-type]
    workers.member = member

    member.turn(0.0)
    member.give(COMMAND, 0.0)
    member.turn(0.1)

    assert [is_given_up for _, is_given_up in workers.seen] == [False, False]
    assert "failed" not in [condition for condition, _ in workers.seen]
    assert (member.condition, member.is_given_up, member.cannot_recover) == (
        after,
        cannot_recover,
        cannot_recover,
    )
    assert member.accepted == 3
    [event] = events.pop()
    assert event.kind == ("worker_failed" if cannot_recover else "worker_respawned")
    assert event.ending is not None
    assert event.ending.env_steps == 7
