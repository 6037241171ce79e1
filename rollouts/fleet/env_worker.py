"""Hold one env process: start it, talk to it, notice its death, start it again."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec
from numpy.typing import NDArray

import rolldeck
import rollouts
from rollouts.fleet.env_process import EnvSetup
from rollouts.fleet.log_capture import OutputPump
from rollouts.fleet.settings import derive_seed

# Not run as a module: messages must name their types by the name the parent knows.
BOOT: Final = "from rollouts.fleet.env_process import main; main()"


class EnvWorkerDied(ConnectionError):
    """The process is gone, or no longer answers its pipe."""


class EnvWorker:
    """An operating-system process with the environments of a few slots, at most one at a time.

    The caller owns the clock and decides about restarts; this class carries them out.
    """

    def __init__(
        self,
        *,
        spec: str,
        kwargs: dict[str, Any],
        slots: Sequence[int],
        base_seed: int,
        output: OutputPump | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            spec: Environment of every slot.
            kwargs: Arguments for it.
            slots: Numbers of the slots within the worker.
            base_seed: Slots derive their seeds from it.
            output: Takes what the process writes; None: it goes where the caller's goes.
        """
        self.slots = tuple(slots)
        self.generation = 0
        """Processes started so far."""
        self._spec = spec
        self._kwargs = kwargs
        self._output = output
        self._base_seed = base_seed
        self._rows = {slot: row for row, slot in enumerate(self.slots)}
        self._builds = dict.fromkeys(self.slots, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    @property
    def pipe(self) -> Connection | None:
        """The parent's end; None while no process is there."""
        return self._pipe

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start a process; what the slots begin with comes as messages.

        The kernel ends the process together with the calling thread.
        """
        self.kill()
        ours, theirs = socket.socketpair()
        with theirs, self._opened_output() as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", BOOT),
                    *(str(theirs.fileno()), str(os.getpid())),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(),
            )
        self.say(f"env process {self._process.pid} begins")
        self._pipe = Connection(ours.detach())
        self.generation += 1
        seeds = [self._next_seed(slot) for slot in self.slots]
        setup = EnvSetup(spec=self._spec, kwargs=self._kwargs, seeds=seeds)
        self._pipe.send_bytes(msgspec.json.encode(setup))

    def say(self, text: str) -> None:
        """Write a line into the log of the process."""
        if self._output is not None:
            self._output.say(self.slots[0], text)

    def build(self, slot: int) -> None:
        """Give one slot a new environment.

        Raises:
            EnvWorkerDied: If the process is gone.
        """
        self._send("build", self._rows[slot], self._next_seed(slot))

    def step(self, slots: Sequence[int], actions: NDArray[Any]) -> None:
        """Send ``actions [N, …]`` for N slots; the outcome comes as one message.

        Raises:
            EnvWorkerDied: If the process is gone.
        """
        self._send("step", [self._rows[slot] for slot in slots], actions)

    def receive(self) -> Any:
        """Return the next message, one of the tuples in `env_process`; waits for it.

        Raises:
            EnvWorkerDied: If the process is gone.
        """
        if self._pipe is None:
            raise EnvWorkerDied("not started")
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise EnvWorkerDied(self._obituary()) from error

    def kill(self) -> None:
        """End the process at once, if there is one, and wait until it is gone."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Let the environments close themselves for a moment, then end the process."""
        if self._pipe is not None and self._process is not None:
            try:
                self._send("close")
                self._process.wait(timeout=1)
            except (EnvWorkerDied, subprocess.TimeoutExpired):
                pass
        self.kill()

    @contextmanager
    def _opened_output(self) -> Iterator[int | None]:
        if self._output is None:
            yield None
            return
        descriptor = self._output.open(self.slots[0])
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _send(self, *message: object) -> None:
        if self._pipe is None:
            raise EnvWorkerDied("not started")
        try:
            self._pipe.send(message)
        except OSError as error:
            raise EnvWorkerDied(self._obituary()) from error

    def _next_seed(self, slot: int) -> int:
        build = self._builds[slot]
        self._builds[slot] += 1
        return derive_seed(self._base_seed, "slot", slot, build)

    def _obituary(self) -> str:
        if self._process is None:
            return "not started"
        try:
            code = self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return f"env process {self._process.pid} hung up"
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"env process {self._process.pid} ended with {ending}"


def _environment() -> dict[str, str]:
    """Return an environment in which the child finds this code and keeps to one core.

    What it writes comes at once: the last words of a crash are worth more than a buffer.
    """
    found = [str(Path(str(package.__file__)).parents[1]) for package in (rollouts, rolldeck)]
    paths = [*found, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
