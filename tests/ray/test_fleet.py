"""A fleet on a real cluster starts, recovers and ends."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from buffer.ingest.rules.fragments import real_steps
from rolldeck.wire import FleetReport, WorkerReport, unpack_array
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.ray_internals import disconnect_from_ray
from runs.config.rules import run_config
from tests.processes import is_gone
from tests.ray.fleets import eventually

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "unit" / "rollouts" / "fleet"))

from small_platform import SmallPlatform, served  # noqa: E402 path set above
from spool_contents import spooled  # noqa: E402

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]
NAMESPACE = "test-fleet"


@pytest.fixture
def connected(ray_head: Any) -> Iterator[str]:
    import ray

    ray.init(
        address=ray_head.address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        ignore_reinit_error=True,
    )
    yield ray_head.address
    disconnect_from_ray()


@pytest.fixture
def launched(connected: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    from rollouts.fleet.manager.actors import find, kill, launch

    names: list[str] = []

    def start(url: str, *, name: str = "manager", **fleet: Any) -> Any:
        small = {"envs_per_worker": 4, "envs_per_process": 4, "inference_batch_size": 4}
        config = {
            "fleet": {**small, "fragment_length": 16, "num_workers": 2, **fleet},
            "policy": {"hidden_sizes": [8]},
        }
        settings = FleetSettings(
            platform_url=url,
            token="t",
            run="r",
            run_config=run_config.to_builtins(run_config.parse(config)),
            incarnation="1-ray",
            spool_root=str(tmp_path),
        )
        names.append(name)
        launch(address=connected, namespace=NAMESPACE, name=name, settings=settings)
        return find(namespace=NAMESPACE, name=name)

    yield start
    for name in names:
        kill(namespace=NAMESPACE, name=name)


def snapshot(manager: Any) -> FleetReport:
    import ray

    answer = ray.get(manager.snapshot.remote(), timeout=60)
    return msgspec.json.decode(answer, type=FleetReport)


def both_run(platform: SmallPlatform) -> bool:
    reported = platform.reports[-1:]
    return [w.state for report in reported for w in report.workers] == ["running"] * 2


def processes_of(workers: list[WorkerReport]) -> set[int]:
    """Return the ids of workers and of their env processes."""
    pids = {w.pid for w in workers} | {slot.pid for w in workers for slot in w.slots}
    return {pid for pid in pids if pid is not None}


def assert_no_step_is_missing(platform: SmallPlatform) -> None:
    """Check that every slot's fragments are in order, unique and contiguous."""
    for slot in {slot for slot, _ in platform.order}:
        numbers = [number for name, number in platform.order if name == slot]
        assert numbers == list(range(len(numbers))), slot
        ended_with = None
        for number in numbers:
            fragment = platform.fragments[slot, number]
            assert fragment.contiguous == (number > 0), (slot, number)
            obs = unpack_array(fragment.arrays["obs"])
            if ended_with is not None:
                assert np.array_equal(obs[0], ended_with), (slot, number)
            ended_with = unpack_array(fragment.arrays["next_obs"])


def test_a_fleet_starts_rolls_out_pauses_and_is_killed_with_its_processes(
    launched: Callable[..., Any],
) -> None:
    from rollouts.fleet.manager.actors import find, kill

    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        manager = launched(url)
        eventually(lambda: len(platform.fragments) > 50)
        eventually(lambda: [w.state for w in platform.reports[-1].workers] == ["running"] * 2)
        assert [w.active_step for w in snapshot(manager).workers] == [0, 0]

        platform.desired = "paused"
        eventually(lambda: platform.reports[-1].state == "paused")
        platform.desired = "running"
        eventually(lambda: platform.reports[-1].state == "running")

        pids = processes_of(snapshot(manager).workers)
        assert len(pids) == 4
        assert kill(namespace=NAMESPACE, name="manager")
        eventually(lambda: all(map(is_gone, pids)))
    eventually(lambda: find(namespace=NAMESPACE, name="manager") is None)
    assert not kill(namespace=NAMESPACE, name="manager")


def test_a_killed_worker_is_replaced_within_half_a_minute(
    launched: Callable[..., Any],
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        launched(url)
        eventually(lambda: both_run(platform))
        platform.publish(1)
        victim = platform.reports[-1].workers[0]
        assert victim.pid
        os.kill(victim.pid, signal.SIGKILL)

        # The manager detects the death and starts a successor, whose imports take minutes on a
        # loaded machine. `make bench ROWS=healing` measures the time to its first step.
        seconds = eventually(
            lambda: platform.reports[-1].workers[0].incarnation != victim.incarnation
        )
        # The other worker gets the new weights in the meantime.
        eventually(lambda: platform.reports[-1].workers[1].active_step == 1)
        eventually(lambda: platform.reports[-1].workers[0].env_steps > 0)
        eventually(lambda: platform.reports[-1].workers[0].active_step == 1)

    assert seconds < 30, seconds
    messages = platform.messages("worker_respawned")
    assert len(messages) == 1, messages
    assert platform.reports[-1].workers[0].restarts == 1


def test_an_outage_of_half_a_minute_loses_and_duplicates_no_step(
    launched: Callable[..., Any], tmp_path: Path
) -> None:
    # Enough room that only the outage stops the fleet.
    platform = SmallPlatform(room=1_000_000)
    platform.publish(0)
    with served(platform) as url:
        port = int(url.rpartition(":")[2])
        launched(url)
        eventually(lambda: both_run(platform) and len(platform.fragments) > 50)
        victim = platform.reports[-1].workers[0]
    began = time.monotonic()
    # Fragments that were accepted without an answer exist in both places.
    before = set(platform.fragments)
    eventually(lambda: victim.incarnation in str(set(spooled(tmp_path)) - before))
    assert victim.pid
    os.kill(victim.pid, signal.SIGKILL)
    eventually(lambda: time.monotonic() - began > 30)
    left = spooled(tmp_path)
    assert set(left) - before

    with served(platform, port=port):
        back_at = time.monotonic()
        eventually(lambda: set(left) <= platform.fragments.keys())
        assert time.monotonic() - back_at < 60
        # The last report before the outage contains them as well, from the lost worker.
        eventually(
            lambda: (
                both_run(platform)
                and platform.reports[-1].workers[0].incarnation != victim.incarnation
            )
        )
        eventually(lambda: not spooled(tmp_path))
        # The survivor and the successor keep sending new fragments.
        known, workers = len(platform.order), platform.reports[-1].workers
        for worker in workers:
            eventually(
                lambda worker=worker: any(
                    worker.incarnation in slot for slot, _ in platform.order[known:]
                )
            )
        # Reported after the fragments themselves.
        eventually(lambda: "spool_inherited" in platform.events())

    assert [worker.restarts for worker in workers] == [1, 0]
    assert_no_step_is_missing(platform)


def test_a_killed_manager_is_restarted_by_the_cluster_with_its_counters(
    launched: Callable[..., Any],
) -> None:
    import ray

    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        manager = launched(url)
        eventually(lambda: len(platform.fragments) > 20 and both_run(platform))
        reported, slots = len(platform.reports), {slot for slot, _ in platform.fragments}
        orphans = processes_of(platform.reports[-1].workers)
        os.kill(ray.get(manager.pid.remote()), signal.SIGKILL)
        began = time.monotonic()
        eventually(lambda: {slot for slot, _ in platform.fragments} - slots)
        seconds = time.monotonic() - began
        eventually(lambda: len(platform.reports) > reported + 2)
        eventually(lambda: all(map(is_gone, orphans)))

    assert len(orphans) == 4
    assert seconds < 30, seconds
    sequences = [report.sequence for report in platform.reports]
    assert sequences == sorted(sequences)


def test_a_fleet_grows_shrinks_and_drains_without_losing_a_step(
    launched: Callable[..., Any],
) -> None:
    platform = SmallPlatform(room=1_000_000)
    platform.publish(0)

    def states() -> list[tuple[int, str]]:
        reported = platform.reports[-1:]
        return [(w.index, w.state) for report in reported for w in report.workers]

    def steps_by_incarnation() -> dict[str, int]:
        reported = [w for report in platform.reports for w in report.workers]
        return {w.incarnation: w.env_steps for w in reported if w.env_steps}

    with served(platform) as url:
        launched(url, num_workers=1)
        eventually(lambda: states() == [(0, "running")])
        platform.num_workers = 2
        eventually(lambda: both_run(platform) and len(steps_by_incarnation()) == 2)
        platform.num_workers = 1
        eventually(lambda: states() == [(0, "running")])
        platform.desired = "draining"
        eventually(lambda: platform.reports[-1].state == "drained")

    sent = platform.fragments.values()
    assert sum(map(real_steps, sent)) == sum(steps_by_incarnation().values())
    assert platform.events().count("worker_left") == 1
    assert_no_step_is_missing(platform)


def test_launching_twice_is_launching_once(launched: Callable[..., Any]) -> None:
    import ray

    platform = SmallPlatform()
    with served(platform) as url:
        pid = ray.get(launched(url).pid.remote())
        again = ray.get(launched(url).pid.remote())
        other = ray.get(launched(url, num_workers=1).pid.remote())

    assert again == pid
    assert other != pid


def test_a_fleet_that_cannot_be_placed_has_a_reason_within_ten_seconds(
    launched: Callable[..., Any],
) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        launched(url, num_workers=1, num_cpus_per_worker=64)
        eventually(lambda: platform.reports)
        began = time.monotonic()
        eventually(lambda: platform.reports[-1].reason, 10.0)
        seconds = time.monotonic() - began

    assert seconds < 10, seconds
    assert platform.reports[-1].reason == "a worker needs 64 CPU, the cluster has 2"
    assert "fleet_unschedulable" in platform.events()
