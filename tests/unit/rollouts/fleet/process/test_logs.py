"""Logs and stacks of a fleet's processes are clean, bounded in size, and outlive the processes."""

import os
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_platform import SmallPlatform, running, served

from rolldeck.operator_requests import LogLines, LogRequest, StacksRequest
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import (
    LINE_CHARACTERS,
    LINES_AT_MOST,
    OutputPump,
    RingFile,
    clean,
    last_lines,
    read_stacks,
    tail,
)
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from tests.waiting import eventually
from web.rules.texts import visible

MakeSettings = Callable[..., FleetSettings]


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


def test_logs_of_inactive_runs_are_deleted(make_settings: Callable[..., FleetSettings]) -> None:
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
    make_settings: Callable[..., FleetSettings],
) -> None:
    with running(make_settings, spec="odd:talking") as platform:
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
    make_settings: Callable[..., FleetSettings],
) -> None:
    with running(make_settings, spec="odd:counting", kwargs={"raises_at": 3}) as platform:
        eventually(lambda: "slot_restarted" in platform.events())
        slot, worker = request_lines(platform, worker=0, slot=0), request_lines(platform, worker=0)
        eventually(lambda: slot() and worker())

    slot_log, worker_log = slot(), worker()
    assert slot_log is not None
    assert worker_log is not None
    assert any("RuntimeError: broken at step 3" in line for line in slot_log.lines)
    assert any("slot_restarted" in line for line in worker_log.lines)


def test_the_log_of_a_killed_env_process_has_its_exit_status(
    make_settings: Callable[..., FleetSettings],
) -> None:
    with running(make_settings) as platform:
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
    make_settings: Callable[..., FleetSettings],
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


@given(st.binary(max_size=3000) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_become_text_without_control_characters(raw: bytes) -> None:
    for line in last_lines(raw, lines=1000, is_whole=True):
        assert not [
            character
            for character in line
            if unicodedata.category(character) == "Cc" and character != "\t"
        ]
        assert len(line) <= LINE_CHARACTERS + 60
        assert line.encode("utf-8").decode("utf-8") == line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Htext", "text"),
        ("\x1b(Bplain\x1bM", "plain"),
        ("10 %\r50 %\r100 %", "100 %"),
        ("a windows line\r", "a windows line"),
        ("nul\x00bell\x07", "nul\ufffdbell\ufffd"),
        ("c1 \x9b31mred", "c1 red"),
        ("an unfinished \x1b[31", "an unfinished "),
        ("tabs\tstay", "tabs\tstay"),
        ("ümlaut 漢字 🎲", "ümlaut 漢字 🎲"),
    ],
)
def test_escape_sequences_are_left_out(written: str, shown: str) -> None:
    assert clean(written) == shown


def test_a_long_line_has_its_omitted_length() -> None:
    [line] = last_lines(b"x" * 10_000_000, lines=5, is_whole=True)

    assert line.startswith("x" * 100)
    assert line.endswith(f" … {10_000_000 - LINE_CHARACTERS} characters left out")


def test_bytes_that_are_no_utf8_are_shown_as_replacement_characters() -> None:
    assert last_lines(b"caf\xe9\nok\n", lines=5, is_whole=True) == ["caf\ufffd", "ok"]


def test_the_last_complete_lines_are_kept() -> None:
    raw = b"cut in half\none\ntwo\nthree\n"

    assert last_lines(raw, lines=2, is_whole=False) == ["two", "three"]
    assert last_lines(raw, lines=10, is_whole=False) == ["one", "two", "three"]
    assert last_lines(b"only a part", lines=10, is_whole=False) == ["only a part"]
    assert last_lines(b"", lines=10, is_whole=True) == []


def test_deceptive_characters_are_named_in_place() -> None:
    assert visible("a\u202eb\x1b[31m\ufeff") == "a⟨U+202E⟩b⟨U+001B⟩[31m⟨U+FEFF⟩"
    assert visible("two\tcolumns\nand a line: é 語") == "two\tcolumns\nand a line: é 語"


@given(st.text())
def test_visible_text_has_no_control_and_no_direction_characters(text: str) -> None:
    shown = visible(text)

    assert not [
        character
        for character in shown
        if unicodedata.category(character) == "Cc" and character not in "\t\n"
    ]
    assert not [
        character for character in shown if unicodedata.bidirectional(character) in DIRECTIONS
    ]


DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def wait_here_for(gate: threading.Event) -> None:
    gate.wait()


def test_every_other_thread_is_listed_with_its_name_and_its_innermost_call_last() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=wait_here_for, args=(gate,), name="the patient \x1b[31mone")
    thread.start()
    try:
        stacks = read_stacks()
    finally:
        gate.set()
        thread.join()

    [begin] = [at for at, line in enumerate(stacks.lines) if "the patient" in line]
    stack = stacks.lines[begin : stacks.lines.index("", begin)]
    assert "\x1b" not in stack[0]
    assert any("in wait_here_for" in line for line in stack)
    assert any(line.strip() == "gate.wait()" for line in stack)
    assert "in wait" in [line for line in stack if " in " in line][-1]
    assert stacks.path.startswith("pid ")


def test_a_deep_stack_is_cut_at_its_outer_calls() -> None:
    gate, deep = threading.Event(), threading.Event()

    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        else:
            deep.set()
            gate.wait()

    threads = [threading.Thread(target=dig, args=(300,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    deep.wait()
    try:
        stacks = read_stacks()
    finally:
        gate.set()
        for thread in threads:
            thread.join()

    assert any("outer calls omitted" in line for line in stacks.lines)
    assert len(stacks.lines) == LINES_AT_MOST
    assert "lines omitted" in stacks.note


def test_a_fleet_answers_for_the_requested_worker_only(make_settings: MakeSettings) -> None:
    with running(make_settings) as platform:
        eventually(lambda: bool(platform.reports and platform.reports[-1].workers[0].pid))
        there = platform.reports[-1].workers[0].incarnation
        platform.stacks = [
            StacksRequest(id="mine", worker=0, incarnation=there),
            StacksRequest(id="ended", worker=0, incarnation="another"),
        ]

        eventually(lambda: {"mine", "ended"} <= set(platform.log_answers))

    assert any("rollout" in line for line in platform.log_answers["mine"].lines)
    assert platform.log_answers["ended"].lines == []
    assert platform.log_answers["ended"].note == "the worker no longer exists"


def test_the_report_of_a_worker_has_its_newest_log_line(make_settings: MakeSettings) -> None:
    with running(make_settings) as platform:
        eventually(
            lambda: any(worker.last_log for report in platform.reports for worker in report.workers)
        )
