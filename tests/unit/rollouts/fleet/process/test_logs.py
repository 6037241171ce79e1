"""Logs of a fleet's processes are bounded in size and outlive the processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_platform import SmallPlatform, served

from rolldeck.operator_requests import LogLines, LogRequest
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import OutputPump, RingFile, tail
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

Eventually = Callable[..., None]


def test_a_ring_keeps_the_newest_bytes_and_no_more(tmp_path: Path) -> None:
    ring = RingFile(tmp_path / "a" / "w0.log", most_bytes=1000)
    for number in range(500):
        ring.write(f"line {number}\n".encode())
        assert ring.path.stat().st_size <= 1000 + 40

    lines = tail(ring.path, lines=3)
    assert lines == ["line 497", "line 498", "line 499"]
    assert "older lines were discarded" in ring.path.read_text()
    ring.close()


def test_one_write_larger_than_the_ring_is_cut(tmp_path: Path) -> None:
    ring = RingFile(tmp_path / "w0.log", most_bytes=1000)
    ring.write(b"x" * 10_000_000 + b"\nlast\n")

    assert ring.path.stat().st_size <= 1000
    assert tail(ring.path, lines=1) == ["last"]
    ring.close()


def test_output_of_other_processes_is_bounded_at_the_next_check(tmp_path: Path) -> None:
    ring = RingFile(tmp_path / "w0.log", most_bytes=1000)
    subprocess.run(
        [sys.executable, "-c", "for n in range(999): print('line', n)"],
        stdout=ring.fileno(),
        check=True,
    )
    ring.trim()

    assert ring.path.stat().st_size <= 1000
    assert tail(ring.path, lines=1) == ["line 998"]
    ring.close()


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log", lines=5) == []


def test_logs_of_inactive_runs_are_deleted(
    make_settings: Callable[..., FleetSettings],
) -> None:
    settings = make_settings()
    mine = logs.log_of(settings, worker=0, slot=None)
    root = logs.folder_of(settings).parent
    for name in ("old", "new"):
        (root / name).mkdir(parents=True)
        (root / name / "manager.log").write_text("x")
    mine.parent.mkdir()
    mine.write_text("x")
    long_ago = time.time() - 8 * 86_400
    for path in (root / "old" / "manager.log", mine):
        os.utime(path, (long_ago, long_ago))

    logs.delete_old_runs(settings)

    assert not (root / "old").exists()
    assert (root / "new").exists()
    assert mine.exists()


@pytest.fixture
def pump(make_worker_settings: Callable[..., WorkerSettings]) -> Iterator[OutputPump]:
    pump = OutputPump(make_worker_settings())
    yield pump
    pump.close()


def run_into(pump: OutputPump, slot: int, code: str) -> None:
    descriptor = pump.open(slot)
    subprocess.run([sys.executable, "-c", code], stdout=descriptor, stderr=descriptor, check=False)
    os.close(descriptor)


def test_the_last_output_of_a_crash_is_kept(
    pump: OutputPump, make_settings: Callable[..., FleetSettings]
) -> None:
    run_into(pump, 0, "import faulthandler, os; faulthandler.enable(); os.abort()")
    pump.write_line(0, "it is gone")

    lines = tail(logs.log_of(make_settings(), worker=0, slot=1), lines=50)
    assert any("Fatal Python error: Aborted" in line for line in lines)
    assert lines[-1].endswith("it is gone")


def test_a_flood_of_output_fills_no_disk_and_delays_no_process(
    pump: OutputPump, make_settings: Callable[..., FleetSettings]
) -> None:
    run_into(pump, 0, "import os\nfor _ in range(40): os.write(1, b'\\xff\\x1b[31m' * 100_000)")
    run_into(pump, 2, "print('beside it')")
    pump.write_line(0, "over")
    pump.write_line(2, "over")

    flooded = logs.log_of(make_settings(), worker=0, slot=0)
    assert flooded.stat().st_size <= logs.MOST_BYTES + 100
    assert tail(flooded, lines=1)[0].endswith("over")
    beside = tail(logs.log_of(make_settings(), worker=0, slot=2), lines=9)
    assert "beside it" in beside


def test_a_child_with_an_open_output_does_not_block_the_next_log(
    pump: OutputPump, make_settings: Callable[..., FleetSettings]
) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '30']); print('parent')"
    run_into(pump, 0, code)
    run_into(pump, 0, "print('the next')")
    pump.write_line(0, "over")

    lines = tail(logs.log_of(make_settings(), worker=0, slot=0), lines=9)
    assert lines[:2] == ["parent", "the next"]


def request_lines(platform: SmallPlatform, **fields: Any) -> Callable[[], LogLines | None]:
    """Request a log; return a function that looks up the answer."""
    request = LogRequest(
        **{
            "id": f"r{len(platform.log_requests)}",
            "worker": None,
            "slot": None,
            "lines": 200,
            **fields,
        }
    )
    platform.log_requests.append(request)
    return lambda: platform.log_answers.get(request.id)


def test_logs_of_manager_worker_and_slots_are_read_through_the_platform(
    make_settings: Callable[..., FleetSettings], eventually: Eventually
) -> None:
    platform = SmallPlatform()
    settings = make_settings(spec="odd:talking")
    with (
        served(platform) as url,
        LocalFleet(settings_at(settings, url)),
    ):
        platform.publish(0)
        eventually(lambda: len(platform.fragments) > 2)
        answers = [
            request_lines(platform),
            request_lines(platform, worker=0),
            request_lines(platform, worker=0, slot=3),
        ]
        eventually(lambda: all(answer() for answer in answers))
        missing = request_lines(platform, worker=7)
        eventually(missing)

    manager, worker, slot = (answer() for answer in answers)
    assert manager is not None
    assert worker is not None
    assert slot is not None
    assert any("starts" in line for line in manager.lines)
    assert any("starts" in line for line in worker.lines)
    assert any("I was reset" in line for line in slot.lines)
    assert slot.path.endswith("w0-slot-2.log")
    answer = missing()
    assert answer is not None
    assert (answer.lines, bool(answer.note)) == ([], True)


def test_the_traceback_of_a_broken_environment_is_in_the_log_of_its_slot(
    make_settings: Callable[..., FleetSettings], eventually: Eventually
) -> None:
    platform = SmallPlatform()
    settings = make_settings(spec="odd:counting", kwargs={"raises_at": 3})
    with served(platform) as url, LocalFleet(settings_at(settings, url)):
        platform.publish(0)
        eventually(lambda: "slot_restarted" in platform.events())
        slot, worker = request_lines(platform, worker=0, slot=0), request_lines(platform, worker=0)
        eventually(lambda: slot() and worker())

    slot_log, worker_log = slot(), worker()
    assert slot_log is not None
    assert worker_log is not None
    assert any("RuntimeError: broken at step 3" in line for line in slot_log.lines)
    assert any("slot_restarted" in line for line in worker_log.lines)


def test_the_log_of_a_killed_env_process_has_its_exit_status(
    make_settings: Callable[..., FleetSettings], eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url, LocalFleet(make_settings(url=url)):
        platform.publish(0)
        eventually(lambda: len(platform.fragments) > 2)
        victim = platform.reports[-1].workers[0].slots[0].pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: "slot_restarted" in platform.events())
        answer = request_lines(platform, worker=0, slot=0)
        eventually(answer)

    log = answer()
    assert log is not None
    assert any(f"env process {victim}" in line and "signal 9" in line for line in log.lines)


def test_logs_are_separated_by_thread_in_a_shared_process(
    make_settings: Callable[..., FleetSettings], eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=2)
        with LocalFleet(settings):
            eventually(lambda: platform.reports)
            first = logs.log_of(settings, worker=0, slot=None)
            second = logs.log_of(settings, worker=1, slot=None)
            import logging

            speak = logging.getLogger("rollouts.fleet.test").warning
            thread = threading.Thread(target=speak, args=("for worker 1",), name="w1 rollout")
            thread.start()
            thread.join()
            eventually(lambda: "for worker 1" in second.read_text())
            assert "for worker 1" not in first.read_text()


def settings_at(settings: FleetSettings, url: str) -> FleetSettings:
    from msgspec.structs import replace

    return replace(settings, platform_url=url)
