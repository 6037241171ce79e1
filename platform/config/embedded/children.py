"""Start and stop child processes that end with their supervisor."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DIE_WITH_PARENT: Final = Path(__file__).with_name("die_with_parent.py")
MAX_LOG_BYTES: Final = 16 * 1024 * 1024


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
        self.command = command
        self.log_path = log_folder / f"{command.name}.log"
        self.started_at = time.monotonic()
        self._log_starts_at = 0
        self._process = self._spawn()

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

    def _spawn(self) -> subprocess.Popen[bytes]:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self._log_bytes() > MAX_LOG_BYTES:
            self.log_path.replace(self._old_log)
        shim = [sys.executable, "-I", "-S", str(DIE_WITH_PARENT)]
        watched = [str(int(self.command.death_signal)), str(os.getpid())]
        with self.log_path.open("ab") as log:
            self._log_starts_at = log.tell()
            # In a separate session, Ctrl-C in the terminal reaches only the supervisor, which
            # then ends the children in order.
            return subprocess.Popen(
                [*shim, *watched, *self.command.argv],
                env=dict(self.command.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.command.pass_fds,
            )

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # the group has ended
