"""A complete fleet in one process follows the commands of its platform."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace
from small_platform import SmallPlatform, served

from buffer.ingest.rules.fragments import real_steps
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
from tests.waiting import stays

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]
FLEETS = 4


def reasons(platform: SmallPlatform) -> list[str]:
    return [worker.reason for report in platform.reports[-1:] for worker in report.workers]


def test_a_fleet_starts_with_published_weights_and_reports(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=2)):
        eventually(lambda: reasons(platform) == ["waiting for the trainer's weights"] * 2)
        assert not platform.fragments

        platform.publish(0)
        eventually(lambda: len(platform.fragments) > 50)
        eventually(lambda: any(report.episodes for report in platform.reports))
        platform.publish(1)
        eventually(lambda: [w.active_step for w in platform.reports[-1].workers] == [1, 1])
        eventually(lambda: platform.reports[-1].workers[0].cpu_percent)
        report = platform.reports[-1]

    assert all(worker.shares and worker.memory_bytes for worker in report.workers)
    assert report.state == "running"
    assert [worker.index for worker in report.workers] == [0, 1]
    assert all(worker.env_steps > 0 and worker.stages for worker in report.workers)
    sequences = [report.sequence for report in platform.reports]
    assert sequences == sorted(set(sequences))
    assert len({slot for slot, _ in platform.fragments}) == 8


def test_a_fleet_never_exceeds_the_room_in_the_buffer(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform(room=10)
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=2)):
        platform.publish(0)
        eventually(lambda: len(platform.fragments) == 10)
        stays(lambda: len(platform.fragments) == 10, 0.5)

        platform.room = 25
        eventually(lambda: len(platform.fragments) == 25)
        stays(lambda: len(platform.fragments) == 25, 0.5)

    assert len(platform.fragments) == 25


def test_a_fleet_never_exceeds_room_that_grows_while_threads_switch_often(
    make_settings: MakeSettings, eventually: Eventually, tmp_path: Path
) -> None:
    def grow(fleet: int) -> int:
        platform, excess = SmallPlatform(room=10), 0
        with served(platform) as url:
            settings = make_settings(url=url, num_workers=2)
            own = replace(settings, spool_root=str(tmp_path / f"spool-{fleet}"))
            with LocalFleet(own):
                platform.publish(0)
                for _ in range(60 // FLEETS):
                    eventually(lambda: len(platform.fragments) >= platform.room)
                    excess = max(excess, len(platform.fragments) - platform.room)
                    platform.room += 15
        return excess

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        # Most of the time, a fleet waits for its next report, which comes once a second.
        with ThreadPoolExecutor(FLEETS) as threads:
            excesses = list(threads.map(grow, range(FLEETS)))
    finally:
        sys.setswitchinterval(before)

    assert excesses == [0] * FLEETS


def test_a_pause_a_resume_and_a_drain_are_carried_out(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        platform.publish(0)
        eventually(lambda: len(platform.fragments) > 5)

        platform.desired = "paused"
        began = time.monotonic()
        eventually(lambda: platform.reports[-1].state == "paused")
        # Less than a second on an idle machine, and far less than two long polls on any.
        assert time.monotonic() - began < 10
        eventually(lambda: platform.reports[-1].workers[0].to_send == 0)
        paused_at = len(platform.fragments)
        stays(lambda: len(platform.fragments) == paused_at, 0.3)

        platform.desired = "running"
        eventually(lambda: len(platform.fragments) > paused_at)

        platform.desired = "draining"
        eventually(lambda: platform.reports[-1].state == "drained")
        worker = platform.reports[-1].workers[0]
        assert worker.env_steps == sum(map(real_steps, platform.fragments.values()))

        platform.desired = "stopped"
        eventually(lambda: platform.reports[-1].state == "stopped")


def test_a_fleet_survives_a_restart_of_its_platform(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        port = int(url.rpartition(":")[2])
        platform.publish(0)
        fleet = LocalFleet(make_settings(url=url))
        eventually(lambda: len(platform.fragments) > 5)
    with fleet:
        before = len(platform.fragments)
        eventually(lambda: fleet.snapshot().workers[0].to_send > 100)
        with served(platform, port=port):
            eventually(lambda: len(platform.fragments) > before + 50, 60.0)
            platform.publish(1)
            eventually(lambda: platform.reports[-1].workers[0].active_step == 1, 60.0)

    for slot in {slot for slot, _ in platform.order}:
        numbers = [number for name, number in platform.order if name == slot]
        assert numbers == list(range(len(numbers)))


def test_a_new_epoch_is_followed_to_an_older_step(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        platform.publish(7)
        eventually(lambda: len(platform.fragments) > 5)
        platform.publish(3, epoch=2)
        eventually(lambda: list(platform.fragments.values())[-1].epoch == 2)
        newest = list(platform.fragments.values())[-1]

    assert (newest.version_min, newest.version_max) == (3, 3)


def test_a_worker_whose_slots_all_fail_is_replaced(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    kwargs = {"how": "raise", "at": 3}
    with (
        served(platform) as url,
        LocalFleet(make_settings(url=url, spec="odd:ending", kwargs=kwargs)),
    ):
        eventually(lambda: "worker_respawned" in platform.events(), 60.0)

    assert "slot_failed" in platform.events()
