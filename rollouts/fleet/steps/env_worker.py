"""Manage one env process: start it, exchange messages, detect its death, restart it."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import rolldeck
import rollouts
from rollouts.fleet.process import child_environment
from rollouts.fleet.process.logs import OutputPump
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.steps.env_messages import (
    AnyMessage,
    Build,
    Channel,
    Close,
    EnvBlock,
    FromProcess,
    Ready,
    Record,
    Setup,
    Step,
    Stepped,
    StepResult,
    ToProcess,
    anonymous_memory,
)
from rollouts.fleet.steps.slots import Slots
from rollouts.fleet.worker import node_cleanup
from runs.config.rules.sections import EnvironmentConfig

# Not run as a module, which would import it a second time under another name.
BOOT: Final = "from rollouts.fleet.steps.env_process import main; main()"
# Environments that draw with SDL have no screen here.
HEADLESS: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}


class EnvWorkerDied(ConnectionError):
    """The process has ended or its pipe is broken."""


class SlotSeeds:
    """Seeds of the environments of each slot, independent of the other slots in its process."""

    def __init__(self, base_seed: int) -> None:
        self._base_seed = base_seed
        self._builds: Counter[int] = Counter()

    def next(self, slot: int) -> int:
        """Return the seed of the slot's next environment."""
        build = self._builds[slot]
        self._builds[slot] += 1
        return derive_seed(self._base_seed, "slot", slot, build)


class EnvWorker:
    """An operating-system process with the environments of a few slots; at most one at a time.

    The caller owns the clock and decides about restarts. Methods that need the process raise
    :class:`EnvWorkerDied` if it is gone.
    """

    def __init__(
        self,
        environment: EnvironmentConfig,
        *,
        slots: range,
        base_seed: int,
        output: OutputPump | None = None,
        mark: str = "",
        is_info_immediate: bool = False,
    ) -> None:
        """Prepare the process without starting it.

        The slots are numbered within the worker, consecutively. Without `output`, the process
        inherits the caller's. All processes that it starts inherit `mark`, unless it is empty.
        `is_info_immediate` reports values of `info` before the results of their step.
        """
        self.slots = slots
        self._is_info_immediate = is_info_immediate
        self._environment = environment
        self._output = output
        self._mark = mark
        self._seeds = SlotSeeds(base_seed)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._memory: int | None = None
        self._block: EnvBlock | None = None

    @property
    def descriptor(self) -> int | None:
        """Descriptor to wait on for messages; None while there is no process."""
        return self._channel.fileno() if self._channel else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start a process; the first observations of the slots arrive as messages.

        The kernel ends the process when the calling thread ends.
        """
        self.kill()
        self._memory = anonymous_memory()
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as opened:
            output = None
            if self._output is not None:
                output = self._output.open(self.slots[0])
                opened.callback(os.close, output)
            passed = (theirs.fileno(), self._memory)
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, *map(str, passed), str(os.getpid())],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=process_variables(self._mark),
                # A simulator's child processes are in this group and end with it.
                start_new_session=True,
                **child_environment.popen_options(),
            )
        self.write_line(f"env process {self._process.pid} starts")
        self._channel = Channel(ours, receives=FromProcess)
        seeds = [self._seeds.next(slot) for slot in self.slots]
        self._channel.send(
            Setup(self._environment, seeds, is_info_immediate=self._is_info_immediate)
        )

    def write_line(self, text: str) -> None:
        if self._output is not None:
            self._output.write_line(self.slots[0], text)

    def build(self, slot: int) -> None:
        """Build a new environment for one slot."""
        self._send(Build(slot - self.slots.start, self._seeds.next(slot)))

    def record(self, slot: int, request_id: str, video: str) -> None:
        """Record the next episode of a slot; the result arrives as a message."""
        self._send(Record(slot - self.slots.start, request_id, video))

    def step(self, slots: Slots, actions: NDArray[Any]) -> None:
        """Step N waiting slots with ``actions [N, …]``; the result arrives as a message."""
        if self._block is None:
            raise EnvWorkerDied("not started")
        rows = slots - self.slots.start
        self._block.actions[rows] = actions
        self._send(Step(rows.tolist()))

    def receive(self) -> list[AnyMessage]:
        """Wait for at least one message and return all that have arrived."""
        if self._channel is None:
            raise EnvWorkerDied("not started")
        messages: list[AnyMessage] = []
        try:
            for message in self._channel.receive():
                if isinstance(message, Ready) and self._memory is not None:
                    self._block = EnvBlock(
                        self._memory,
                        rows=len(self.slots),
                        observation=message.observation,
                        action=message.action,
                        keys=len(self._environment.info),
                    )
                    self._close_memory()
                if isinstance(message, StepResult) and self._block is not None:
                    messages.append(read_steps(message, self._block))
                else:
                    messages.append(message)
        except (EOFError, OSError) as error:
            raise EnvWorkerDied(self._exit_reason()) from error
        return messages

    def observation(self, row: int) -> NDArray[Any]:
        """Return a copy of the current observation of the environment in `row`."""
        if self._block is None:
            raise EnvWorkerDied("not started")
        return np.array(self._block.obs[row])

    def kill(self) -> None:
        """Kill the process, if there is one, and wait until it has ended."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._block = None
        self._close_memory()
        if self._process is not None:
            if self._process.returncode is None:
                kill_group(self._process.pid)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Ask the environments to close within 1 s, then end the process."""
        if self._channel is not None and self._process is not None:
            try:
                self._send(Close())
                self._process.wait(timeout=1)
                kill_group(self._process.pid)
            except (EnvWorkerDied, subprocess.TimeoutExpired):
                pass
        self.kill()

    def _send(self, message: ToProcess) -> None:
        if self._channel is None:
            raise EnvWorkerDied("not started")
        try:
            self._channel.send(message)
        except OSError as error:
            raise EnvWorkerDied(self._exit_reason()) from error

    def _close_memory(self) -> None:
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None

    def _exit_reason(self) -> str:
        if self._process is None:
            return "not started"
        try:
            code = self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return f"env process {self._process.pid} closed its connection"
        kill_group(self._process.pid)
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"env process {self._process.pid} ended with {ending}"


def read_steps(came: StepResult, block: EnvBlock) -> Stepped:
    """Return the steps of a message as arrays copied from the block."""
    rows = np.asarray(came.rows, dtype=np.intp)
    terminated, truncated = block.terminated[rows], block.truncated[rows]
    ended = np.flatnonzero(terminated | truncated).tolist()
    return Stepped(
        rows=rows,
        obs=block.obs[rows],
        reward=block.reward[rows],
        terminated=terminated,
        truncated=truncated,
        info=block.info[rows],
        finals=[(at, np.array(block.final_obs[rows[at]])) for at in ended],
        seconds=came.seconds,
        crashed=came.crashed,
    )


def kill_group(leader: int) -> None:
    """Kill the remaining processes of a process group.

    Call it before or right after waiting for the leader; later, the id may be reused.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def process_variables(mark: str) -> dict[str, str]:
    """Return environment variables with which the child finds this code and uses one core.

    They contain no secrets of the worker. Output is unbuffered, so that a crash loses none of it.
    """
    found = [str(Path(str(package.__file__)).parents[1]) for package in (rollouts, rolldeck)]
    paths = [*found, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {
        **HEADLESS,
        **child_environment.with_user(child_environment.for_environments(os.environ)),
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        **({node_cleanup.MARK_VARIABLE: mark} if mark else {}),
    }
