"""A worker is reported as abandoned only after the event with the reason."""

from collections.abc import Callable
from typing import Any

import pytest
from idle_workers import AnsweringWorkers, state_of

from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.worker.messages import WorkerCommand

MakeFleetSettings = Callable[..., FleetSettings]
COMMAND = WorkerCommand(desired="running", epoch=1, policy_step=0)


class WatchedWorkers(AnsweringWorkers):
    """Workers that fail at once, and record the state of their supervisor when killed."""

    def __init__(self, *, cannot_recover: bool) -> None:
        state = {"accepted": 3, "is_drained": True, "cannot_recover": cannot_recover}
        super().__init__(lambda: state_of("failed", reason="no luck", env_steps=7, **state))
        self.member: WorkerSupervisor | None = None
        self.seen: list[tuple[str, bool]] = []

    def kill(self) -> None:
        self.observe()

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
    member = WorkerSupervisor(0, settings=make_settings(), source=workers, events=events)
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
