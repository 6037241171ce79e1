"""Step a few environments in a process of their own, as the parent says over a pipe.

Started by :class:`rollouts.fleet.env_worker.EnvWorker` with the pipe's file descriptor and the
parent's process id as arguments. The two ends belong together, so
messages are Python objects; nothing from outside the machine comes this way.
"""

import ctypes
import faulthandler
import logging
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rollouts.fleet.environments import (
    Environment,
    Space,
    describe,
    import_registered_modules,
    make,
)

_PR_SET_PDEATHSIG: Final = 1


class EnvSetup(Struct, frozen=True, kw_only=True):
    """What an env process must build."""

    spec: str
    kwargs: dict[str, Any]
    seeds: list[int]
    """First seed of each environment, ``[rows]``."""


class Ready(NamedTuple):
    """The process is up and knows its environments."""

    observation: Space
    action: Space


class Began(NamedTuple):
    """A row's environment is new and begins an episode."""

    row: int
    obs: NDArray[Any]


class Broke(NamedTuple):
    """A row's environment raised and is gone."""

    row: int
    error: str


class Stepped(NamedTuple):
    """What followed the actions; N rows came through, obs are those to act upon next."""

    rows: list[int]
    obs: NDArray[Any]
    """``[N, …]``; the first of a new episode where the last one ended."""
    reward: NDArray[np.float64]
    """``[N]``, as the two below."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    finals: list[tuple[int, NDArray[Any]]]
    """Position among the N, last observation of the episode that ended there."""
    seconds: float
    """Spent in the environments."""


class _Rows(NamedTuple):
    """What came so far, row by row."""

    rows: list[int]
    obs: list[Any]
    reward: list[float]
    terminated: list[bool]
    truncated: list[bool]
    finals: list[tuple[int, NDArray[Any]]]

    def stepped(self, seconds: float) -> Stepped:
        return Stepped(
            rows=self.rows,
            obs=np.stack(self.obs),
            reward=np.array(self.reward),
            terminated=np.array(self.terminated),
            truncated=np.array(self.truncated),
            finals=self.finals,
            seconds=seconds,
        )


class EnvRows:
    """The environments of one process, by row."""

    def __init__(self, setup: EnvSetup, pipe: Connection) -> None:
        self._setup = setup
        self._pipe = pipe
        self._rows: list[Environment | None] = [None] * len(setup.seeds)
        self._observation: Space | None = None
        self._action: Space | None = None

    def build(self, row: int, seed: int) -> None:
        """Replace a row's environment; tell how its first episode begins."""
        try:
            self._close(row)
            environment = make(self._setup.spec, self._setup.kwargs)
            self._introduce(environment)
            obs, _ = environment.reset(seed=seed)
        except Exception:  # noqa: BLE001 environments may raise anything
            self._pipe.send(_broken(row))
            return
        self._rows[row] = environment
        self._pipe.send(Began(row, np.asarray(obs)))

    def step(self, rows: list[int], actions: NDArray[Any]) -> None:
        """Step the environments of `rows` with ``actions [N, …]``; tell what followed."""
        began = time.perf_counter()
        came = _Rows([], [], [], [], [], [])
        # Environments expect a plain int for a discrete action.
        listed = actions.tolist() if actions.ndim == 1 else actions
        for row, action in zip(rows, listed, strict=True):
            try:
                self._step_row(row, action, came)
            except Exception:  # noqa: BLE001 environments may raise anything
                self._rows[row] = None
                self._pipe.send(_broken(row))
        if came.rows:
            seconds = time.perf_counter() - began
            self._pipe.send(came.stepped(seconds))

    def close(self) -> None:
        """Close every environment."""
        for row in range(len(self._rows)):
            self._close(row)

    def _step_row(self, row: int, action: Any, came: "_Rows") -> None:
        environment = self._rows[row]
        if environment is None:
            raise RuntimeError(f"row {row} has no environment")
        obs, reward, terminated, truncated, _ = environment.step(action)
        reward, terminated, truncated = float(reward), bool(terminated), bool(truncated)
        if terminated or truncated:
            final = np.array(obs)
            obs, _ = environment.reset()
            came.finals.append((len(came.rows), final))
        came.rows.append(row)
        came.reward.append(reward)
        came.terminated.append(terminated)
        came.truncated.append(truncated)
        came.obs.append(obs)

    def _introduce(self, environment: Environment) -> None:
        if self._observation is None:
            self._observation, self._action = describe(environment)
            self._pipe.send(Ready(self._observation, self._action))

    def _close(self, row: int) -> None:
        environment, self._rows[row] = self._rows[row], None
        if environment is not None:
            environment.close()


def _broken(row: int) -> Broke:
    """Return how the environment of `row` has just ended; its whole traceback goes to the log."""
    traceback.print_exc()
    return Broke(row, traceback.format_exc(limit=-4))


def serve(pipe: Connection) -> None:
    """Do what the parent says until it hangs up."""
    setup = msgspec.json.decode(pipe.recv_bytes(), type=EnvSetup)
    import_registered_modules()
    rows = EnvRows(setup, pipe)
    for row, seed in enumerate(setup.seeds):
        rows.build(row, seed)
    while True:
        verb, *rest = pipe.recv()
        if verb == "step":
            rows.step(*rest)
        elif verb == "build":
            rows.build(*rest)
        else:
            rows.close()
            return


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process once its parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have gone before the kernel was asked.
    if os.getppid() != parent:
        raise SystemExit(1)


def main() -> None:
    """Serve the pipe whose file descriptor is the first argument."""
    die_with_parent(int(sys.argv[2]))
    # Ctrl-C reaches the whole group; the parent decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with Connection(int(sys.argv[1])) as pipe:
        try:
            serve(pipe)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise SystemExit(0) from None
