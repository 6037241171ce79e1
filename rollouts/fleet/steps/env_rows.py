"""Environments of a few slots by row, independent of their process."""

import time
import traceback
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.fleet_wire import InfoScope
from rollouts.fleet.environments.contract import Environment, VectorEnvironment
from rollouts.fleet.environments.loader import RowOfVector, describe, make, make_vector
from rollouts.fleet.policies.spaces import (
    MOST,
    Bounds,
    InvalidValue,
    Space,
    bounds_of,
    fitted,
    invalid_rows,
    outside,
    require_finite,
    validity,
)
from rollouts.fleet.steps.env_messages import (
    Began,
    EnvBlock,
    EnvCrashed,
    FromProcess,
    InfoReport,
    OutsideBounds,
    Ready,
    Recorded,
    Setup,
    StepResult,
)
from rollouts.fleet.steps.recordings import RecordedEnvironment
from rollouts.fleet.worker.info_values import (
    InfoTotals,
    episode_info,
    final_rows,
    numbers_at,
    numbers_of,
    split_rows,
    task_of,
)

BOUNDS_CHECKS: Final = 100
"""Number of requests to step whose observations are compared with the bounds of their space."""
INFO_SECONDS: Final = 1.0
"""Minimum interval between two reports of `info` values."""
Rows = NDArray[np.intp]
"""Distinct rows, ``[N]``, in any order."""


class EnvRows:
    """Environments of one process by row; rows of a vector environment step together."""

    def __init__(self, setup: Setup, *, emit: Callable[[FromProcess], None], memory: int) -> None:
        """Prepare the rows without building environments.

        `memory` is the descriptor of the memory shared with the worker, which receives messages by
        `emit`.
        """
        self._environment = setup.environment
        self._info_seconds = 0.0 if setup.is_info_immediate else INFO_SECONDS
        self._emit = emit
        self._memory = memory
        self._vector: VectorEnvironment | None = None
        self._has_no_vector = False
        self._is_together = np.zeros(len(setup.seeds), dtype=np.bool_)
        """Which rows the vector environment steps, ``[R]``."""
        self._are_together: bool | None = False
        """Whether it steps all rows; None if it steps some of them."""
        self._rows: list[Environment | None] = [None] * len(setup.seeds)
        self._returns = np.zeros(len(setup.seeds))
        self._lengths = np.zeros(len(setup.seeds), dtype=np.int64)
        """Return and length of the running episode of each row, ``[R]``."""
        self._info = InfoTotals()
        self._info_at = -INFO_SECONDS
        self._keys = setup.environment.info
        self.block: EnvBlock | None = None
        """Shared block; None until an environment exists."""
        self._to_record: dict[int, tuple[str, str]] = {}
        """Recording id and file by row, for the row's next episode."""
        self._recordings: dict[int, tuple[str, RecordedEnvironment, Environment]] = {}
        """Recording id, recorded environment and the row's own environment, by row."""
        self._broken: dict[int, EnvCrashed] = {}
        """Rows that made the last step of an episode and cannot begin another."""
        self._ended: list[int] = []
        """Rows whose episode ended in the present step."""
        self._extras: dict[int, Any] = {}
        """Extras of the present step by row, if it has some."""
        self._space: Space | None = None
        self._is_valid: Callable[[NDArray[Any]], bool] | None = None
        self._bounds: Bounds = []
        self._bounds_checks = BOUNDS_CHECKS

    def build(self, row: int, seed: int) -> None:
        """Replace a row's environment and report its first observation."""
        try:
            self._close(row)
            environment = self._make(row)
            self._put(row, environment)
            if self.block is None:
                observation, action = describe(environment)
                self.block = EnvBlock(
                    self._memory,
                    rows=len(self._rows),
                    observation=observation,
                    action=action,
                    keys=len(self._keys),
                )
                self._space, self._is_valid = observation, validity(observation)
                self._bounds = bounds_of(observation)
                self._emit(Ready(observation, action))
            self._reset(row, environment, self.block, seed=seed)
            invalid = self._invalid(self.block, [row])
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._drop(self._crash(row, error, "reset"))
            return
        if invalid:
            self._drop(self._crash(row, InvalidValue(invalid[row]), "reset"))
            return
        self._emit(Began(row))

    def step(self, rows: Rows) -> None:
        """Step the environments of `rows` with the actions in the block; report the results."""
        began = time.perf_counter()
        self._ended.clear()
        self._extras.clear()
        if self._are_together is not None:
            came = self._step_together(rows) if self._are_together else self._step_singly(rows)
        else:
            is_together = self._is_together[rows]
            came = self._step_together(rows[is_together]) if is_together.any() else []
            came += self._step_singly(rows[~is_together])
        came = self._with_valid_values(came)
        if self._keys and self.block is not None:
            self.block.info[came] = np.nan
        if self._extras:
            came = self._with_added_info(came)
        if self._ended:
            self._begin_episodes()
        if self._info and began - self._info_at >= self._info_seconds:
            self._info_at = began
            self._emit(InfoReport(self._info.pop()))
        crashed = list(self._broken.values())
        self._broken.clear()
        for crash in crashed:
            self._close_quietly(crash.row)
        if came:
            self._emit(StepResult(came, time.perf_counter() - began, crashed))

    def close(self) -> None:
        for row in range(len(self._rows)):
            with suppress(Exception):  # the others are closed as well
                self._close(row)
        vector, self._vector = self._vector, None
        if vector is not None:
            vector.close()

    def _make(self, row: int) -> Environment:
        spec, kwargs = self._environment.spec, self._environment.kwargs
        if self._environment.wrappers or self._environment.callbacks:
            return self._make_one(spec, kwargs)
        if self._vector is None and not self._has_no_vector:
            self._vector = make_vector(spec, kwargs, rows=len(self._rows))
            self._has_no_vector = self._vector is None
        if self._vector is not None:
            return RowOfVector(self._vector, row)
        return self._make_one(spec, kwargs)

    def _make_one(self, spec: str, kwargs: Mapping[str, Any]) -> Environment:
        config = self._environment
        return make(spec, kwargs, wrappers=config.wrappers, callbacks=config.callbacks)

    def _put(self, row: int, environment: Environment | None) -> None:
        self._rows[row] = environment
        self._is_together[row] = isinstance(environment, RowOfVector)
        together = int(np.count_nonzero(self._is_together))
        self._are_together = together > 0 if together in (0, len(self._rows)) else None

    def _step_together(self, rows: Rows) -> list[int]:
        """Step `rows` of the vector environment; return them, or none if it raised."""
        vector, block, shape = self._vector, self.block, rows.shape
        if vector is None or block is None:
            raise RuntimeError("there is no vector environment")
        try:
            obs, reward, terminated, truncated, *more = vector.step(rows, block.actions[rows])
            obs = fitted(obs, (*shape, *block.obs.shape[1:]), block.obs.dtype, "obs")
            terminated = fitted(terminated, shape, block.terminated.dtype, "terminated")
            truncated = fitted(truncated, shape, block.truncated.dtype, "truncated")
            reward = fitted(reward, shape, block.reward.dtype, "reward")
            if not np.vdot(reward, reward) <= MOST:
                require_finite(float(np.abs(reward).max()), "reward")
            ended = rows[terminated | truncated].tolist()
            block.obs[rows] = obs
            if more and more[0]:
                for at, final in final_rows(more[0], len(rows)).items():
                    if rows[at] in ended:
                        block.obs[rows[at]] = fitted(final, obs.shape[1:], obs.dtype, "final_obs")
                split = split_rows(more[0], len(rows))
                self._extras.update(zip(rows.tolist(), split, strict=True))
        except Exception as error:  # noqa: BLE001 environments may raise anything
            for row in rows.tolist():
                self._drop(self._crash(row, error, f"step {self._lengths[row] + 1}"))
            return []
        block.reward[rows] = reward
        block.terminated[rows], block.truncated[rows] = terminated, truncated
        self._returns[rows] += reward
        self._lengths[rows] += 1
        self._ended += ended
        return rows.tolist()

    def _step_singly(self, rows: Rows) -> list[int]:
        """Step `rows`, each with its own environment; return those that did not raise."""
        block, environments = self.block, list[Any](self._rows)
        if block is None:
            raise RuntimeError("there is no environment")
        actions = block.actions[rows]
        # Environments expect a plain int for a discrete action, and may keep an array.
        chosen = actions.tolist() if actions.ndim == 1 else list(actions)
        came, rewards, ends = [], [], []
        for row, action in zip(rows.tolist(), chosen, strict=True):
            try:
                obs, reward, terminated, truncated, extras = environments[row].step(action)
                block.obs[row] = obs
                if extras:
                    self._extras[row] = extras
            except Exception as error:  # noqa: BLE001 environments may raise anything
                self._drop(self._crash(row, error, f"step {self._lengths[row] + 1}"))
                continue
            came.append(row)
            rewards.append(reward)
            if terminated or truncated:
                ends.append((row, terminated, truncated))
        stepped = rows if len(came) == len(rows) else np.array(came, dtype=np.intp)
        block.reward[stepped] = reward = np.array(rewards, dtype=np.float64)
        block.terminated[stepped] = block.truncated[stepped] = False
        self._returns[stepped] += reward
        self._lengths[stepped] += 1
        for row, terminated, truncated in ends:
            block.terminated[row], block.truncated[row] = terminated, truncated
            self._ended.append(row)
        return came

    def _with_added_info(self, came: list[int]) -> list[int]:
        """Add the numbers in the extras of the stepped rows; return the rows that have no error.

        The block receives those of the stored keys.

        An episode that names its task adds its return and its length to those of the task.
        """
        left: list[int] = []
        stored: dict[int, list[float]] = {}
        for row in came:
            try:
                if row in self._extras:
                    is_last = row in self._ended
                    scope: InfoScope = "episode" if is_last else "step"
                    info = episode_info(self._extras[row]) if is_last else self._extras[row]
                    for name, value in numbers_of(info):
                        self._info.add(name, value, scope=scope)
                    if self._keys:
                        stored[row] = numbers_at(info, self._keys)
                    if is_last and (task := task_of(info)):
                        episode = {"return": self._returns[row], "length": self._lengths[row]}
                        for name, total in episode.items():
                            self._info.add(f"task/{task}/{name}", float(total), scope=scope)
                left.append(row)
            except Exception as error:  # noqa: BLE001 their code may raise anything
                self._drop(self._crash(row, error, f"step {self._lengths[row]}"))
        if stored and self.block is not None:
            self.block.info[list(stored)] = list(stored.values())
        self._ended = [row for row in self._ended if row in left]
        return left

    def record(self, row: int, request_id: str, video: str) -> None:
        self._to_record[row] = (request_id, video)

    def _begin_episodes(self) -> None:
        """Begin the next episodes; rows where that fails break after their step is reported.

        Recordings begin and end only here, so a step costs the same with and without them.
        """
        block = self.block
        if block is None:
            return
        for row in self._ended:
            block.final_obs[row] = block.obs[row]
            environment: Any = self._rows[row]
            try:
                if row in self._recordings:
                    request_id, recorded, environment = self._recordings.pop(row)
                    recorded.finish()
                    recorded.close()
                    self._put(row, environment)
                    result = (recorded.total_return, recorded.length, recorded.outcome)
                    self._emit(Recorded(row, request_id, *result))
                if row in self._to_record:
                    environment = self._begin_recording(row, environment)
                self._reset(row, environment, block)
            except Exception as error:  # noqa: BLE001 environments may raise anything
                self._broken[row] = self._crash(row, error, "reset")
        if self._is_valid is not None and not self._is_valid(block.obs):
            for row, text in self._invalid(block, self._ended).items():
                self._broken[row] = self._crash(row, InvalidValue(text), "reset")

    def _reset(
        self, row: int, environment: Environment, block: EnvBlock, *, seed: int | None = None
    ) -> None:
        """Store the first observation of an episode."""
        self._returns[row], self._lengths[row] = 0.0, 0
        block.obs[row], _ = environment.reset(seed=seed)

    def _invalid(self, block: EnvBlock, rows: list[int]) -> dict[int, str]:
        """Return row → problem of those with an observation that cannot be used; clear it."""
        found = invalid_rows(self._space, block.obs[rows], "obs") if self._space else {}
        invalid = {rows[at]: text for at, text in found.items()}
        block.obs[list(invalid)] = np.zeros((), block.obs.dtype)
        return invalid

    def _with_valid_values(self, came: list[int]) -> list[int]:
        """Return the stepped rows whose observations can be used; report the others as broken."""
        block, is_valid = self.block, self._is_valid
        if block is None or not came:
            return came
        if self._bounds and self._bounds_checks:
            self._bounds_checks -= 1
            if found := outside(self._bounds, block.obs[came], "obs"):
                self._bounds_checks = 0
                at, text = found
                self._emit(OutsideBounds(came[at], f"{self._environment.spec}: {text}"))
        # Comparing the rows that did not step costs less than copying those that did.
        if is_valid is None or is_valid(
            block.obs if 2 * len(came) >= len(block.obs) else block.obs[came]
        ):
            return came
        invalid = self._invalid(block, came)
        for row, text in invalid.items():
            self._drop(self._crash(row, InvalidValue(text), f"step {self._lengths[row]}"))
        self._ended = [row for row in self._ended if row not in invalid]
        return [row for row in came if row not in invalid]

    def _begin_recording(self, row: int, own: Environment) -> Environment:
        request_id, video = self._to_record.pop(row)
        try:
            recorded = RecordedEnvironment(
                self._make_one, self._environment.spec, self._environment.kwargs, Path(video)
            )
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._emit(Recorded(row, request_id, error=f"{type(error).__name__}: {error}"))
            return own
        # The seed depends on the recording id and applies to this episode only.
        recorded.seed = zlib.crc32(request_id.encode()) >> 1
        self._recordings[row] = (request_id, recorded, own)
        self._put(row, recorded)
        return recorded

    def _drop(self, crash: EnvCrashed) -> None:
        """Report and close an environment that has raised or returned an invalid value."""
        self._emit(crash)
        self._close_quietly(crash.row)

    def _close_quietly(self, row: int) -> None:
        with suppress(Exception):  # its first error was reported
            self._close(row)

    def _crash(self, row: int, error: Exception, call: str) -> EnvCrashed:
        """Return the message for a broken environment; the full traceback goes to the log."""
        if isinstance(error, InvalidValue):
            text = f"{self._environment.spec}, {call}: {error}"
            return EnvCrashed(row, text, is_invalid_value=True)
        traceback.print_exception(error)
        return EnvCrashed(row, "".join(traceback.format_exception(error, limit=-4)))

    def _close(self, row: int) -> None:
        environment = self._rows[row]
        self._put(row, None)
        _, _, own = self._recordings.pop(row, (None, None, None))
        for one in (environment, own):
            if one is not None:
                one.close()
