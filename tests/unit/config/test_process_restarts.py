"""Children are started, watched, restarted, and stopped with all of their descendants."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from config.embedded import children, process_watch
from config.embedded.children import Child, Command, StartFailed
from config.embedded.process_watch import Part, ProcessWatch, delay_seconds
from config.embedded.services import Folders, ServerRunning
from tests.processes import wait_until_gone
from tests.waiting import eventually


def part(name: str, *argv: str) -> Part:
    command = Command(name=name, argv=argv, stop_seconds=0.3)
    return Part(name=name, prepare=lambda: command, is_ready=lambda _: True)


def watch(folder: Path, lines: list[str]) -> ProcessWatch:
    return ProcessWatch(log_folder=folder, print_line=lines.append)


def test_restart_delays_grow_up_to_a_limit() -> None:
    assert [delay_seconds(failures) for failures in (1, 2, 3, 4, 7, 50)] == [0, 0.5, 1, 2, 10, 10]


class SupervisedPart:
    """A watched part with the start times and the ends of its children."""

    def __init__(self, folder: Path, *, ready: bool, lives: float) -> None:
        self.starts: list[float] = []
        self._lives = lives
        self.lines: list[str] = []
        self.watching = watch(folder, self.lines)
        self.watching.start(Part(name="x", prepare=self._prepare, is_ready=lambda _: ready))

    def _prepare(self) -> Command:
        self.starts.append(time.monotonic())
        return Command(name="x", argv=("sleep", str(self._lives)), stop_seconds=0.3)

    def waits(self, *, starts: int) -> list[str]:
        """Return the waits before each further start, as printed."""

        def has_started() -> bool:
            self.watching.check_children()
            return len(self.starts) >= starts

        eventually(has_started, 60)
        self.watching.stop(order=[["x"]])
        again = [line.partition("restarting ")[2].partition(";")[0] for line in self.lines]
        return again[: starts - 1]


def test_a_part_that_ran_is_restarted_at_once_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_watch, "STABLE_SECONDS", 0.5)
    part = SupervisedPart(tmp_path, ready=True, lives=1.0)

    assert part.waits(starts=3) == ["now", "now"]


def test_delays_grow_for_a_part_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    part = SupervisedPart(tmp_path, ready=False, lives=0)

    assert part.waits(starts=4) == ["now", "in 0.5 s", "in 1 s"]


def test_delays_grow_for_a_part_that_is_ready_and_ends_soon(tmp_path: Path) -> None:
    part = SupervisedPart(tmp_path, ready=True, lives=0.1)

    assert part.waits(starts=3) == ["now", "in 0.5 s"]


def test_a_spare_takes_the_place_of_a_part_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_watch, "SPARE_SECONDS", 0.0)
    monkeypatch.setattr(process_watch, "FIRST_SPARE_SECONDS", 1.0)
    command = Command(name="web", argv=("sleep", "61"), stop_seconds=0.3)
    script = "read log && echo I work >>$log && exec sleep 62"
    spare = Command(name="web-spare", argv=("sh", "-c", script, children.SPARE))
    watching = watch(tmp_path, [])
    watching.start(Part(name="web", prepare=lambda: command, is_ready=lambda _: True, spare=spare))
    watching.wait_until_ready(["web"])
    watching.check_children()
    assert not (tmp_path / "web-spare.log").exists()
    eventually(lambda: (watching.check_children(), (tmp_path / "web-spare.log").exists())[1])
    mine = ("--parent", str(os.getpid()), "-f")

    def is_running(command: str) -> bool:
        return subprocess.run(["pgrep", *mine, command], capture_output=True).returncode == 0

    log = tmp_path / "web.log"

    def kill_and_wait(command: str, *, until: Callable[[], bool]) -> None:
        subprocess.run(["pkill", "-KILL", *mine, command], check=True)
        eventually(lambda: (watching.check_children(), until())[1], 20)

    kill_and_wait("sleep 61", until=lambda: log.read_bytes() == b"I work\n")
    # The next spare is killed with the one that works: the part starts by itself.
    kill_and_wait("sleep 62", until=lambda: is_running("^sleep 61"))

    assert log.read_bytes() == b"I work\n"
    assert (tmp_path / "web-spare.log").read_bytes() == b""
    watching.stop(order=[["web"]])
    assert not is_running("sleep 6[12]")


def test_a_part_that_ends_at_once_is_named_with_its_last_output(tmp_path: Path) -> None:
    watching = watch(tmp_path, [])
    watching.start(
        Part(
            name="web",
            prepare=lambda: Command(name="web", argv=("sh", "-c", "echo no such file; exit 3")),
            is_ready=lambda _: False,
        )
    )

    with pytest.raises(StartFailed, match=r"(?s)web failed to start \(exit code 3\).*no such file"):
        watching.wait_until_ready(["web"])


def test_a_part_that_is_never_ready_is_abandoned(tmp_path: Path) -> None:
    command = Command(name="web", argv=("sleep", "60"), stop_seconds=0.1)
    watching = watch(tmp_path, [])
    watching.start(
        Part(name="web", prepare=lambda: command, is_ready=lambda _: False, start_seconds=0.1)
    )

    with pytest.raises(StartFailed, match=r"not ready within 0\.1 s"):
        watching.wait_until_ready(["web"])
    watching.stop(order=[["web"]])


@pytest.mark.parametrize(
    ("argv", "start_seconds", "reason", "log"),
    [
        (
            ("sh", "-c", "echo no memory; exit 3"),
            30.0,
            "ray failed to start (exit code 3)",
            "no memory",
        ),
        (("sh", "-c", "kill -9 $$"), 30.0, "ray failed to start (signal SIGKILL)", ""),
        (("sleep", "60"), 1.5, "ray was not ready within 1.5 s", ""),
    ],
    ids=["ends", "is killed", "is never ready"],
)
def test_a_part_that_is_not_essential_is_started_again(
    tmp_path: Path, argv: tuple[str, ...], start_seconds: float, reason: str, log: str
) -> None:
    lines: list[str] = []
    reasons: list[tuple[str, str, str]] = []
    commands = [argv, argv, argv, ("sh", "-c", "echo started; sleep 60")]
    watching = ProcessWatch(
        log_folder=tmp_path,
        print_line=lines.append,
        report_failure=lambda *exit: reasons.append(exit),
    )
    watching.start(part("web", "sleep", "60"))
    watching.start(
        Part(
            name="ray",
            prepare=lambda: Command(name="ray", argv=commands.pop(0), stop_seconds=0.1),
            is_ready=lambda child: "started" in child.logged(),
            start_seconds=start_seconds,
            is_essential=False,
        )
    )
    try:
        watching.wait_until_ready(["web", "ray"])
        name, why, last_lines = reasons[0]
        assert (name, why, last_lines.strip()) == ("ray", reason, log)

        def is_ready() -> bool:
            watching.check_children()
            return watching._watched[1].ready_at is not None

        eventually(is_ready, 60)
        assert len(reasons) == 3
    finally:
        watching.stop(order=[["web", "ray"]])


def test_a_part_that_hangs_is_replaced(tmp_path: Path) -> None:
    hung: set[int] = set()
    lines: list[str] = []
    watching = ProcessWatch(
        log_folder=tmp_path, print_line=lines.append, is_hung=lambda pid: pid in hung
    )
    watching.start(part("web", "sleep", "60"))
    try:
        watching.wait_until_ready(["web"])
        stopped = watching._watched[0].child
        os.kill(stopped.pid, signal.SIGSTOP)
        watching.check_children()
        assert stopped.exit_code is None
        hung.add(stopped.pid)
        watching.check_children()
        assert stopped.exit_code == -signal.SIGKILL
        assert watching._watched[0].child.exit_code is None
        assert "web sends no heartbeats; restarting now" in lines[-1]
    finally:
        watching.stop(order=[["web"]])


def test_parts_of_a_group_end_at_once(tmp_path: Path) -> None:
    watching = watch(tmp_path, [])
    names = [f"part-{number}" for number in range(6)]
    for name in names:
        stubborn = Command(
            name=name, argv=("sh", "-c", "trap '' TERM; echo up; sleep 60"), stop_seconds=2.0
        )
        watching.start(
            Part(name=name, prepare=lambda c=stubborn: c, is_ready=lambda c: "up" in c.logged())
        )
    watching.wait_until_ready(names)
    began = time.monotonic()
    watching.stop(order=[names])
    assert time.monotonic() - began < 10  # one after the other: 12 s


def test_parts_end_in_the_given_order(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    watching = watch(tmp_path, [])
    for name in ("a", "b", "c"):
        script = f"trap 'echo {name} >> {trace}; exit' TERM; touch {trace}.{name}; sleep 60 & wait"
        watching.start(part(name, "sh", "-c", script))
    eventually(lambda: all(Path(f"{trace}.{name}").exists() for name in ("a", "b", "c")), 60)
    watching.stop(order=[["b"], ["c"], ["a"]])

    assert trace.read_text().split() == ["b", "c", "a"]


def test_a_child_that_ignores_the_signal_is_killed_with_its_own_children(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"
    child = Child(
        Command(name="stubborn", argv=("sh", "-c", script), stop_seconds=0.2), log_folder=tmp_path
    )
    eventually(lambda: child.logged().strip(), 60)
    child.stop()

    assert child.exit_code == -signal.SIGKILL
    wait_until_gone(int(child.logged()))


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param("", id="started in a terminal"),
        pytest.param(
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);",
            id="started in the background of a shell",
        ),
    ],
)
def test_a_child_dies_with_its_parent(begin: str, tmp_path: Path) -> None:
    program = (
        f"{begin}import sys, time; from pathlib import Path;"
        "from config.embedded.children import Child, Command;"
        "print(Child(Command(name='c', argv=('sleep', '60')), log_folder=Path(sys.argv[1])).pid,"
        " flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        eventually(lambda: "sleep" in Path("/proc", str(pid), "cmdline").read_text(), 60)
        parent.kill()

    wait_until_gone(pid)


def test_a_folder_has_one_server_at_a_time(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.create()
    held = folders.lock()

    with pytest.raises(ServerRunning, match=f"process {os.getpid()}"):
        folders.lock()
    held.close()
    folders.lock().close()


def test_sockets_of_a_killed_server_are_removed_by_the_next(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.create()
    left_behind = folders.new_socket_folder()
    fresh = folders.new_socket_folder()

    assert not left_behind.exists()
    assert fresh.stat().st_mode & 0o777 == 0o700
    folders.remove_socket_folder(fresh)
    assert not fresh.exists()


def test_the_log_of_a_running_child_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "MAX_LOG_BYTES", 100_000)
    watching = watch(tmp_path, [])
    watching.start(
        part("noisy", "sh", "-c", "while :; do head -c 20000 /dev/zero | tr '\\0' x; done")
    )
    try:
        for _ in range(3):
            (tmp_path / "noisy.log.1").unlink(missing_ok=True)

            def has_rotated() -> bool:
                watching.check_children()
                return (tmp_path / "noisy.log.1").exists()

            eventually(has_rotated, 30)
        # The child goes on at the new end, without a gap of zeros.
        eventually(lambda: (tmp_path / "noisy.log").stat().st_size, 30)
        assert (tmp_path / "noisy.log").read_bytes()[:1] in b"x"
    finally:
        watching.stop(order=[["noisy"]])


def test_a_slow_part_that_others_do_not_use_is_stopped_meanwhile(tmp_path: Path) -> None:
    started, stopped, ended = (tmp_path / name for name in ("started", "stopped", "ended"))
    slow = f"trap '' TERM; : > {started}; until [ -e {stopped} ]; do sleep 0.02; done; : > {ended}"
    server = f"trap ': > {stopped}; exit' TERM; : > {started}2; while :; do sleep 0.02; done"
    watching = watch(tmp_path, [])
    for name, script in (("ray", slow), ("web", "sleep 60"), ("postgres", server)):
        command = Command(name=name, argv=("sh", "-c", script), stop_seconds=20)
        watching.start(Part(name=name, prepare=lambda command=command: command, is_ready=bool))
    eventually(lambda: started.exists() and Path(f"{started}2").exists(), 60)

    watching.stop(order=[["web"], ["postgres"]], meanwhile=["ray"])

    assert ended.exists()
