"""A complete fleet in one process, through outages and policies that do not fit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from small_platform import SmallPlatform, running, served
from spool_contents import spooled
from worker_bench import bench

from buffer.ingest.rules.fragments import check, real_steps
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from tests.waiting import eventually, stays

MakeSettings = Callable[..., FleetSettings]
FLEETS = 4
Key = tuple[str, int]

ROOT = Path(__file__).resolve().parents[5]

FLEET = """
import sys, time, msgspec
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
with LocalFleet(msgspec.json.decode(sys.argv[1], type=FleetSettings)):
    time.sleep(600)
"""
MakeWorkerSettings = Callable[..., WorkerSettings]


def reasons(platform: SmallPlatform) -> list[str]:
    return [worker.reason for report in platform.reports[-1:] for worker in report.workers]


def test_a_fleet_starts_with_published_weights_and_reports(make_settings: MakeSettings) -> None:
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


def test_a_fleet_never_exceeds_the_room_in_the_buffer(make_settings: MakeSettings) -> None:
    with running(make_settings, room=10, num_workers=2) as platform:
        eventually(lambda: len(platform.fragments) == 10)
        stays(lambda: len(platform.fragments) == 10, 0.5)

        platform.room = 25
        eventually(lambda: len(platform.fragments) == 25)
        stays(lambda: len(platform.fragments) == 25, 0.5)

    assert len(platform.fragments) == 25


def test_a_fleet_never_exceeds_room_that_grows_while_threads_switch_often(
    make_settings: MakeSettings, tmp_path: Path
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


def test_a_pause_a_resume_and_a_drain_are_carried_out(make_settings: MakeSettings) -> None:
    with running(make_settings) as platform:
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


def test_a_fleet_survives_a_restart_of_its_platform(make_settings: MakeSettings) -> None:
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

    assert platform.is_in_order()


def test_a_new_epoch_is_followed_to_an_older_step(make_settings: MakeSettings) -> None:
    platform = SmallPlatform()
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        platform.publish(7)
        eventually(lambda: len(platform.fragments) > 5)
        platform.publish(3, epoch=2)
        eventually(lambda: list(platform.fragments.values())[-1].epoch == 2)
        newest = list(platform.fragments.values())[-1]

    assert (newest.version_min, newest.version_max) == (3, 3)


def test_a_worker_whose_slots_all_fail_is_replaced(make_settings: MakeSettings) -> None:
    kwargs = {"how": "raise", "at": 3}
    with running(make_settings, spec="odd:ending", kwargs=kwargs) as platform:
        eventually(lambda: "worker_respawned" in platform.events(), 60.0)

    assert "slot_failed" in platform.events()


@contextmanager
def fleet_process(settings: FleetSettings) -> Iterator[subprocess.Popen[bytes]]:
    """Run a fleet in a separate process, and kill it by the end of the block."""
    command = [sys.executable, "-c", FLEET, msgspec.json.encode(settings).decode()]
    paths = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client"), os.environ["PYTHONPATH"]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def stored(platform: SmallPlatform, incarnation: str) -> int:
    """Return how many fragments of that manager's workers the platform has."""
    return sum(incarnation in slot for slot, _ in list(platform.order))


def test_a_fleet_killed_in_an_outage_loses_and_duplicates_nothing(
    make_settings: MakeSettings, tmp_path: Path
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with ExitStack() as started:
        with served(platform) as url:
            port, settings = int(url.rpartition(":")[2]), make_settings(url=url)
            process = started.enter_context(fleet_process(settings))
            eventually(lambda: len(platform.fragments) > 20, 60.0)
        # Fragments that were accepted without an answer exist in both places.
        eventually(lambda: len(set(spooled(tmp_path)) - set(platform.order)) >= 4, 60.0)
        process.send_signal(signal.SIGKILL)
    left = spooled(tmp_path)

    heirs = msgspec.structs.replace(settings, incarnation="2-bbbb")
    with served(platform, port=port), LocalFleet(heirs):
        eventually(lambda: set(left) <= platform.fragments.keys(), 60.0)
        eventually(lambda: not spooled(tmp_path), 20.0)
        eventually(lambda: any("2-bbbb" in slot for slot, _ in platform.order), 60.0)

    for fragment in platform.fragments.values():
        check(fragment)
    assert platform.is_in_order()
    assert "spool_inherited" in platform.events()


def test_a_fleet_killed_while_the_platform_answers_loses_no_cut_fragment(
    make_settings: MakeSettings, tmp_path: Path
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with ExitStack() as started, served(platform) as url:
        settings = make_settings(url=url)
        process = started.enter_context(fleet_process(settings))
        eventually(lambda: len(platform.fragments) > 20, 60.0)
        # Pushes are accepted without an answer, so later fragments queue up.
        platform.gate.clear()
        behind = len(platform.fragments)
        eventually(lambda: platform.reports[-1].workers[0].fragments_cut > behind + 8, 60.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        cut = platform.reports[-1].workers[0].fragments_cut
        platform.gate.set()

        heirs = msgspec.structs.replace(settings, incarnation="2-bbbb")
        with LocalFleet(heirs):
            eventually(lambda: "spool_inherited" in platform.events(), 60.0)
            eventually(lambda: stored(platform, settings.incarnation) >= cut)

    # The fragments in flight when the worker died were sent twice and stored once.
    assert platform.duplicates >= 1
    assert platform.is_in_order()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"policy": {"kind": "cnn"}},
            "policy.kind: cnn needs images: no uint8 image in",
            id="cnn",
        ),
        pytest.param(
            {"device": "cuda", "num_gpus_per_worker": 1},
            "fleet.device: cuda is configured, but torch finds no GPU",
            id="cuda",
        ),
    ],
)
def test_a_worker_names_the_invalid_field_of_its_policy(
    make_worker_settings: MakeWorkerSettings,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    reason: str,
) -> None:
    # On machines with a GPU, torch must not find it, and must check again.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with bench(make_worker_settings(**changes)) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        report = b.order().report

    assert reason in report.reason
    assert b.events.count("policy_refused") == 1
    assert report.env_steps == 0


def test_a_fleet_with_an_invalid_policy_fails_at_once_permanently(
    make_settings: MakeSettings,
) -> None:
    with running(make_settings, policy={"kind": "cnn"}, num_workers=2) as platform:
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)
        report = platform.reports[-1]
        eventually(lambda: "worker_failed" in platform.events())

    assert report.is_final
    assert report.reason.startswith("2 of 2 workers were given up: policy.kind: cnn needs images")
    assert [worker.restarts for worker in report.workers] == [1, 1]
    assert "worker_respawned" not in platform.events()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raise", "RuntimeError: broken at step 1"),
        ("exit", "ended with exit code 3"),
        ("nan", "odd:ending, step 1: obs[0] is nan"),
    ],
)
def test_a_fleet_whose_environment_never_makes_a_step_fails_at_once_permanently(
    make_settings: MakeSettings, how: str, error: str
) -> None:
    with running(
        make_settings, spec="odd:ending", kwargs={"how": how, "at": 1}, num_workers=2
    ) as platform:
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)
        report = platform.reports[-1]
        eventually(lambda: "worker_failed" in platform.events())

    assert report.is_final
    assert "workers were given up: odd:ending never completed a step: " in report.reason
    assert error in report.reason
    assert platform.events().count("environment_refused") == 2
    assert "worker_respawned" not in platform.events()
    assert not platform.fragments


def test_a_fleet_reports_weights_that_do_not_fit_and_loads_the_next_valid_ones(
    make_settings: MakeSettings,
) -> None:
    with running(make_settings, num_workers=2) as platform:
        eventually(lambda: len(platform.fragments) > 20)
        platform.publish(1, module=MlpPolicy(4, 2, [16]))
        eventually(lambda: platform.events().count("weights_refused") == 2)
        eventually(lambda: platform.reports[-1].reason)
        refused = platform.reports[-1]
        platform.publish(2)
        eventually(lambda: [w.active_step for w in platform.reports[-1].workers] == [2, 2])
        eventually(lambda: not platform.reports[-1].reason)
        eventually(lambda: any(f.version_max == 2 for f in platform.fragments.values()))

    assert refused.state == "running"
    assert refused.reason.startswith("2 of 2 workers: the weights of version 1 do not fit")
    assert [(w.active_step, w.restarts) for w in refused.workers] == [(0, 0), (0, 0)]
    assert not {1} & {f.version_max for f in platform.fragments.values()}
