"""Step a few environments in a process of their own, as the parent says over a socket.

Started by :class:`rollouts.fleet.env_worker.EnvWorker` with the descriptors of the socket and of
the shared memory, and the parent's process id, as arguments.
"""

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any, Final

from rollouts.fleet.env_block import EnvBlock
from rollouts.fleet.env_messages import (
    Began,
    Broke,
    Build,
    Came,
    Channel,
    Close,
    Ready,
    Record,
    Recorded,
    Setup,
    Step,
    ToProcess,
)
from rollouts.fleet.environments import Environment, describe, import_registered_modules, make
from rollouts.fleet.filming import FilmedEnvironment

_PR_SET_PDEATHSIG: Final = 1


class EnvRows:
    """The environments of one process, by row."""

    def __init__(self, setup: Setup, channel: Channel, memory: int) -> None:
        self._setup = setup
        self._channel = channel
        self._memory = memory
        self._rows: list[Environment | None] = [None] * len(setup.seeds)
        self._block: EnvBlock | None = None
        self._to_film: dict[int, tuple[str, str]] = {}
        """Order and film by row, for the row's next episode."""
        self._filmed: dict[int, tuple[str, FilmedEnvironment, Environment]] = {}
        """Order, what stands in for the row's own environment, and that, by row."""

    def build(self, row: int, seed: int) -> None:
        """Replace a row's environment; tell how its first episode begins."""
        try:
            self._close(row)
            environment = make(self._setup.spec, self._setup.kwargs)
            block = self._block or self._introduce(environment)
            block.obs[row], _ = environment.reset(seed=seed)
        except Exception:  # noqa: BLE001 environments may raise anything
            self._channel.send(_broken(row))
            return
        self._rows[row] = environment
        self._channel.send(Began(row))

    def step(self, rows: list[int]) -> None:
        """Step the environments of `rows` with their actions in the block; tell what followed."""
        began = time.perf_counter()
        came = []
        for row in rows:
            try:
                self._step_row(row)
            except Exception:  # noqa: BLE001 environments may raise anything
                self._rows[row] = None
                self._channel.send(_broken(row))
            else:
                came.append(row)
        if came:
            self._channel.send(Came(came, time.perf_counter() - began))

    def close(self) -> None:
        """Close every environment."""
        for row in range(len(self._rows)):
            self._close(row)

    def _step_row(self, row: int) -> None:
        environment, block = self._rows[row], self._block
        if environment is None or block is None:
            raise RuntimeError(f"row {row} has no environment")
        # Environments expect a plain int for a discrete action, and may keep an array.
        action = block.actions[row].item() if block.actions.ndim == 1 else block.actions[row].copy()
        obs, reward, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            block.final_obs[row] = obs
            obs = self._begin_episode(row, environment)
        block.obs[row] = obs
        block.reward[row] = reward
        block.terminated[row] = terminated
        block.truncated[row] = truncated

    def record(self, row: int, order_id: str, film: str) -> None:
        """Film the row's next episode."""
        self._to_film[row] = (order_id, film)

    def _begin_episode(self, row: int, environment: Environment) -> Any:
        """Return the first observation of the row's next episode.

        Only here does a film begin or end: a step costs the same whether anybody films or not.
        """
        if row in self._filmed:
            environment = self._end_film(row)
        if row in self._to_film:
            environment = self._begin_film(row, environment)
        obs, _ = environment.reset()
        return obs

    def _begin_film(self, row: int, own: Environment) -> Environment:
        order_id, film = self._to_film.pop(row)
        try:
            filmed = FilmedEnvironment(make, self._setup.spec, self._setup.kwargs, Path(film))
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._channel.send(Recorded(row, order_id, error=f"{type(error).__name__}: {error}"))
            return own
        # Seeded by its order, for the time of its one episode.
        filmed.seed = zlib.crc32(order_id.encode()) >> 1
        self._filmed[row] = (order_id, filmed, own)
        self._rows[row] = filmed
        return filmed

    def _end_film(self, row: int) -> Environment:
        order_id, filmed, own = self._filmed.pop(row)
        filmed.finish()
        filmed.close()
        self._rows[row] = own
        self._channel.send(
            Recorded(row, order_id, filmed.total_return, filmed.length, filmed.outcome)
        )
        return own

    def _introduce(self, environment: Environment) -> EnvBlock:
        observation, action = describe(environment)
        self._block = EnvBlock(
            self._memory, rows=len(self._rows), observation=observation, action=action
        )
        self._channel.send(Ready(observation, action))
        return self._block

    def _close(self, row: int) -> None:
        environment, self._rows[row] = self._rows[row], None
        _, _, own = self._filmed.pop(row, (None, None, None))
        for one in (environment, own):
            if one is not None:
                one.close()


def _broken(row: int) -> Broke:
    """Return how the environment of `row` has just ended; its whole traceback goes to the log."""
    traceback.print_exc()
    return Broke(row, traceback.format_exc(limit=-4))


def serve(channel: Channel, memory: int) -> None:
    """Do what the parent says until it hangs up."""
    setup, *messages = channel.receive()
    import_registered_modules()
    rows = EnvRows(setup, channel, memory)
    for row, seed in enumerate(setup.seeds):
        rows.build(row, seed)
    # What is here now stays: looking it through again and again would only cost time.
    gc.freeze()
    while True:
        for message in messages:
            match message:
                case Step(asked):
                    rows.step(asked)
                case Build(row, seed):
                    rows.build(row, seed)
                case Record(row, order_id, film):
                    rows.record(row, order_id, film)
                case Close():
                    rows.close()
                    return
        messages = channel.receive()


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process once its parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have gone before the kernel was asked.
    if os.getppid() != parent:
        raise SystemExit(1)


def main() -> None:
    """Serve the socket whose descriptor is the first argument; the memory's is the second."""
    end, memory, parent = map(int, sys.argv[1:4])
    die_with_parent(parent)
    # Ctrl-C reaches the whole group; the parent decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    channel = Channel(socket.socket(fileno=end), receives=ToProcess)
    try:
        serve(channel, memory)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None
