"""A starting worker ends what an earlier one left, and nothing else."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.worker import node_cleanup as clean_node
from rollouts.fleet.worker.node_cleanup import (
    MARK_VARIABLE,
    Mark,
    end_leftovers,
    lives,
    mark_of,
    read_mark,
    wait_for_gpu,
    why_ended,
)
from rollouts.fleet.worker.resources import shortage
from runs.config.rules.sections import EnvironmentConfig
from tests.processes import is_gone, wait_until_gone
from tests.waiting import eventually

# Like a simulator that survives its parent: a process with a child in another session.
STUBBORN = (
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    " start_new_session=True);"
    "print(child.pid, flush=True); time.sleep(600)"
)
MINE = Mark(fleet="f00d", worker=0, incarnation="2-a-b", owner_pid=100, owner_started=5000.0)
OLD = replace(MINE, incarnation="1-a-b", owner_pid=50, owner_started=4000.0)


@pytest.fixture
def mine(make_worker_settings: Callable[..., WorkerSettings], tmp_path: Path) -> Mark:
    # A unique fleet, because other tests run in parallel.
    return replace(mark_of(make_worker_settings()), fleet=tmp_path.name.replace(" ", ""))


@pytest.fixture
def start() -> Iterator[Callable[[Mark], list[int]]]:
    """Start a marked process with a child process; return the ids of both."""
    started: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def begin(mark: Mark) -> list[int]:
        process = subprocess.Popen(
            [sys.executable, "-c", STUBBORN],
            env={**os.environ, MARK_VARIABLE: str(mark)},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        processes.append(process)
        assert process.stdout is not None
        with process.stdout as output:
            started.extend(pids := [process.pid, int(output.readline())])
        return pids

    yield begin
    for pid in started:
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        process.wait()


@pytest.fixture
def idle() -> Iterator[subprocess.Popen[bytes]]:
    """A process of another worker."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def owned_by(process: subprocess.Popen[bytes], mine: Mark, **changes: object) -> Mark:
    started = psutil.Process(process.pid).create_time()
    return replace(
        mine, owner_pid=process.pid, owner_started=started, incarnation="0-old", **changes
    )


def test_processes_of_a_dead_worker_are_ended_with_their_children(
    mine: Mark, start: Callable[[Mark], list[int]], idle: subprocess.Popen[bytes]
) -> None:
    mark = owned_by(idle, mine)
    pids = start(mark)
    idle.kill()
    idle.wait()

    ended = end_leftovers(mine)

    assert [line for pid in pids for line in ended if line.startswith(f"{pid} ")] != []
    for pid in pids:
        wait_until_gone(pid)
    assert all("its worker is gone" in line for line in ended)


def test_a_live_earlier_incarnation_is_ended_with_its_children(
    mine: Mark, start: Callable[[Mark], list[int]], idle: subprocess.Popen[bytes]
) -> None:
    pids = start(owned_by(idle, mine))

    end_leftovers(mine)

    for pid in (*pids, idle.pid):
        wait_until_gone(pid)


def test_a_process_that_starts_while_the_others_are_listed_is_ended(
    mine: Mark,
    start: Callable[[Mark], list[int]],
    idle: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent, child = start(owned_by(idle, mine))
    is_first = iter([True])

    def listed() -> list[psutil.Process]:
        pids = [idle.pid, parent] if next(is_first, False) else [idle.pid, parent, child]
        return [psutil.Process(pid) for pid in pids if not is_gone(pid)]

    monkeypatch.setattr(psutil, "process_iter", listed)

    ended = end_leftovers(mine)

    assert [int(line.split()[0]) for line in ended] == [idle.pid, parent, child]
    for pid in (idle.pid, parent, child):
        wait_until_gone(pid)


@pytest.mark.parametrize("age_seconds", [0, 3600])
@pytest.mark.parametrize("it_ends", ["after the arguments are read", "before they are read"])
def test_the_environment_of_a_process_that_executes_its_program_is_waited_for(
    mine: Mark,
    start: Callable[[Mark], list[int]],
    idle: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    it_ends: str,
    age_seconds: float,
) -> None:
    pids = start(owned_by(idle, mine))
    started, environ = psutil.Process.create_time, psutil.Process.environ
    cmdline = psutil.Process.cmdline
    # Linux returns nothing between the new address space and the arguments in it.
    no_environment = dict.fromkeys(pids, 1 if it_ends == "before they are read" else 2)
    no_arguments = dict.fromkeys(pids, 0 if it_ends == "before they are read" else 1)

    def is_executing(process: psutil.Process, left: dict[int, int]) -> bool:
        left[process.pid] = left.get(process.pid, 0) - 1
        return left[process.pid] >= 0

    def read_environ(process: psutil.Process) -> dict[str, str]:
        return {} if is_executing(process, no_environment) else environ(process)

    def read_cmdline(process: psutil.Process) -> list[str]:
        return [] if is_executing(process, no_arguments) else cmdline(process)

    def create_time(process: psutil.Process) -> float:
        return started(process) - (age_seconds if process.pid in pids else 0)

    monkeypatch.setattr(psutil.Process, "environ", read_environ)
    monkeypatch.setattr(psutil.Process, "cmdline", read_cmdline)
    monkeypatch.setattr(psutil.Process, "create_time", create_time)

    end_leftovers(mine)

    for pid in (*pids, idle.pid):
        wait_until_gone(pid)


def test_a_process_that_was_given_no_environment_is_kept(mine: Mark) -> None:
    with subprocess.Popen(["/bin/sleep", "600"], env={}) as bare:
        end_leftovers(mine)

        assert not is_gone(bare.pid)
        bare.kill()


def test_processes_of_other_live_workers_and_this_one_are_kept(
    mine: Mark, start: Callable[[Mark], list[int]], idle: subprocess.Popen[bytes]
) -> None:
    others = [
        *start(owned_by(idle, mine, worker=mine.worker + 1)),
        *start(owned_by(idle, mine, fleet="another")),
        *start(mine),
        idle.pid,
    ]

    end_leftovers(mine)

    assert [pid for pid in others if is_gone(pid)] == []


def namespaces(proc: Path, *, of: list[int], name: str) -> None:
    """Create procfs entries of processes in the same PID namespace."""
    for pid in ("self", *of):
        folder = proc / str(pid) / "ns"
        folder.mkdir(parents=True)
        (folder / "pid").symlink_to("pid:[1]" if pid == "self" else name)


def test_process_ids_of_other_containers_are_ignored(
    mine: Mark, start: Callable[[Mark], list[int]], tmp_path: Path
) -> None:
    pids = start(replace(mine, owner_pid=1 << 22, incarnation="0-old"))
    namespaces(tmp_path / "apart", of=pids, name="pid:[2]")
    namespaces(tmp_path / "together", of=pids, name="pid:[1]")

    assert end_leftovers(mine, proc=tmp_path / "apart") == []
    assert [pid for pid in pids if is_gone(pid)] == []

    assert end_leftovers(mine, proc=tmp_path / "together")
    for pid in pids:
        wait_until_gone(pid)


def test_processes_of_the_same_pid_namespace_are_recognized(idle: subprocess.Popen[bytes]) -> None:
    def namespace(pid: object) -> Path:
        return (clean_node.PROC / str(pid) / "ns" / "pid").readlink()

    assert str(namespace("self")).startswith("pid:[")
    assert namespace(idle.pid) == namespace("self")


def test_processes_started_by_an_environment_end_with_it(mine: Mark) -> None:
    stray = EnvironmentConfig(spec="odd:stray")
    worker = EnvWorker(stray, slots=range(1), base_seed=0, mark=str(mine))
    worker.start()
    assert worker.pid
    process = psutil.Process(worker.pid)
    eventually(lambda: process.children())
    [child] = process.children()
    assert child.environ()[MARK_VARIABLE] == str(mine)

    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(EnvWorkerDied, match="signal 9"):
        all(worker.receive() for _ in itertools.count())

    wait_until_gone(child.pid)
    worker.kill()


def test_a_worker_waits_until_the_memory_of_its_gpu_is_free() -> None:
    used = iter([20, 20, 2])

    assert wait_for_gpu(1, lambda: (24, next(used))) == ""
    assert next(used, None) is None


def test_a_worker_starts_on_a_full_gpu_after_the_timeout_with_a_warning(
    make_worker_settings: Callable[..., WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_node, "GPU_WAIT_SECONDS", 0.0)
    events = EventLog()

    clean_node.clean_node(
        make_worker_settings(num_gpus_per_worker=1), events, gpu=lambda: (int(24e9), int(20e9))
    )

    [event] = [event for event in events.pop() if event.kind == "gpu_memory_held"]
    assert "4.0 of 24.0 GB of the GPU are free" in event.message


@pytest.mark.parametrize(
    ("share", "message"),
    [(0.0, "the worker requests no GPU"), (1.0, "the driver cannot be queried")],
)
def test_without_a_gpu_the_reason_of_the_skipped_check_is_logged(
    share: float, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=clean_node.__name__)
    began = time.monotonic()

    assert wait_for_gpu(share, lambda: None) == ""

    assert message in caplog.text
    assert time.monotonic() - began < 20


@given(
    fleet=st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    worker=st.integers(0, 1023),
    incarnation=st.from_regex(r"[\w-]{1,60}", fullmatch=True),
    pid=st.integers(1, 1 << 22),
    started=st.floats(0, 4e9).map(lambda seconds: round(seconds, 2)),
)
def test_a_mark_is_read_back_unchanged(
    fleet: str, worker: int, incarnation: str, pid: int, started: float
) -> None:
    mark = Mark(
        fleet=fleet, worker=worker, incarnation=incarnation, owner_pid=pid, owner_started=started
    )

    assert read_mark(str(mark)) == mark


@pytest.mark.parametrize("text", ["", "f00d", "f00d x 1-a 100 5000.0", "f00d 0 1-a 100 soon"])
def test_other_text_is_not_a_mark(text: str) -> None:
    assert read_mark(text) is None


def test_a_process_without_its_worker_is_ended_in_every_fleet() -> None:
    assert why_ended(OLD, mine=MINE, owner_lives=False) == "its worker is gone"
    assert why_ended(replace(OLD, fleet="beef"), mine=MINE, owner_lives=False)


def test_a_process_of_an_earlier_incarnation_is_ended() -> None:
    assert why_ended(OLD, mine=MINE, owner_lives=True) == "it belongs to an earlier worker 0"


@pytest.mark.parametrize(
    "other",
    [replace(OLD, fleet="beef"), replace(OLD, worker=1), MINE],
    ids=["of another fleet", "of another worker", "my own"],
)
def test_a_process_of_another_live_worker_is_kept(other: Mark) -> None:
    assert why_ended(other, mine=MINE, owner_lives=True) == ""


def test_a_reused_process_id_is_recognized() -> None:
    assert lives(OLD, 4000.4)
    assert not lives(OLD, 4900.0)
    assert not lives(OLD, None)


@pytest.mark.parametrize(
    ("share", "used", "expected"),
    [
        (1, 2e9, ""),
        (1, 20e9, "4.0 of 24.0 GB of the GPU are free, its share is 1"),
        (0.25, 18e9, ""),
        (0.25, 20e9, "4.0 of 24.0 GB of the GPU are free, its share is 0.25"),
        (2, 2e9, ""),
    ],
)
def test_a_gpu_is_free_when_the_share_of_a_worker_is_free(
    share: float, used: float, expected: str
) -> None:
    assert shortage(share=share, total_bytes=int(24e9), used_bytes=int(used)) == expected
