"""A fleet scales up and down during rollouts without losing fragments."""

from collections.abc import Callable

import pytest
from small_platform import SmallPlatform, served

from buffer.ingest.rules.fragments import real_steps
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager import worker_supervisor
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.spool import sender

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


def workers(platform: SmallPlatform) -> list[WorkerReport]:
    return [worker for report in platform.reports[-1:] for worker in report.workers]


def states(platform: SmallPlatform) -> list[tuple[int, str]]:
    return [(worker.index, worker.state) for worker in workers(platform)]


def slots_of(platform: SmallPlatform, worker: int) -> list[tuple[str, int]]:
    return [key for key in list(platform.order) if key[0].startswith(f"w{worker}-")]


def test_a_fleet_grows_to_the_desired_size(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        eventually(lambda: states(platform) == [(0, "running")])
        platform.num_workers = 3
        eventually(lambda: states(platform) == [(0, "running"), (1, "running"), (2, "running")])
        eventually(lambda: slots_of(platform, 2))


def test_a_surplus_worker_flushes_and_ends(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    slow = {"spec": "odd:counting", "kwargs": {"seconds": 0.005, "length": 1000}}
    with (
        served(platform) as url,
        LocalFleet(make_settings(url=url, num_workers=2, fragment_length=500, **slow)),
    ):
        eventually(lambda: all(w.env_steps > 20 for w in workers(platform)) and workers(platform))
        platform.num_workers = 1
        eventually(lambda: states(platform) == [(0, "running")])
        assert platform.reports[-1].state == "running"

        platform.num_workers = 2
        eventually(lambda: states(platform) == [(0, "running"), (1, "running")])
        eventually(lambda: workers(platform)[1].env_steps > 0)

    last = [w for r in platform.reports for w in r.workers if w.state == "stopped" and w.index == 1]
    sent = [platform.fragments[key] for key in slots_of(platform, 1)]
    mine = [fragment for fragment in sent if fragment.worker.endswith(last[0].incarnation)]
    assert len(mine) == 4
    assert sum(map(real_steps, mine)) == last[0].env_steps
    assert last[0].dropped_steps == {}
    assert platform.events().count("worker_left") == 1
    aborted = [e for r in platform.reports for e in r.episodes if e.worker == 1]
    assert sum(window.aborted for window in aborted) >= 4


def test_a_fleet_shrinks_while_it_is_paused(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=3)):
        eventually(lambda: [state for _, state in states(platform)] == ["running"] * 3)
        platform.desired = "paused"
        eventually(lambda: [state for _, state in states(platform)] == ["paused"] * 3)
        platform.num_workers = 1
        eventually(lambda: states(platform) == [(0, "paused")])
        assert platform.reports[-1].state == "paused"


def test_fragments_of_a_worker_that_ends_in_an_outage_are_sent_later(
    make_settings: MakeSettings, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_supervisor, "LEAVE_SECONDS", 0.5)
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
    for slot in {slot for slot, _ in platform.order}:
        numbers = [number for name, number in platform.order if name == slot]
        assert numbers == list(range(len(numbers)))
