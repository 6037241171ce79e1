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

from rollouts.fleet.environments.contract import Environment, VectorEnvironment
from rollouts.fleet.environments.loader import RowOfVector, describe, make, make_vector
from rollouts.fleet.policies.space_values import (
    MOST,
    Bounds,
    bounds_of,
    invalid_rows,
    outside,
    require_finite,
    validity,
)
from rollouts.fleet.policies.spaces import InvalidValue, Space, fitted
from rollouts.fleet.steps.env_block import EnvBlock
from rollouts.fleet.steps.env_messages import (
    Began,
    EnvCrashed,
    FromProcess,
    InfoReport,
    OutsideBounds,
    Ready,
    Recorded,
    Setup,
    StepResult,
)
from rollouts.fleet.steps.info_values import (
    episode_info,
    final_rows,
    numbers_of,
    split_rows,
    task_of,
)
from rollouts.fleet.steps.recorder import RecordedEnvironment
from rollouts.fleet.worker.info_totals import InfoTotals

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

        Args:
            setup: Environments to build.
            emit: Receives messages for the worker.
            memory: Descriptor of the memory shared with the worker.
        """
        self._setup = setup
        self._emit = emit
        self._memory = memory
        self._vector: VectorEnvironment | None = None
        self._has_no_vector = False
        self._is_together = np.zeros(len(setup.seeds), dtype=np.bool_)
        """Which rows the vector environment steps, ``[R]``."""
        self._rows: list[Environment | None] = [None] * len(setup.seeds)
        self._returns = np.zeros(len(setup.seeds))
        self._lengths = np.zeros(len(setup.seeds), dtype=np.int64)
        """Return and length of the running episode of each row, ``[R]``."""
        self._info = InfoTotals()
        self._info_at = -INFO_SECONDS
        self.block: EnvBlock | None = None
        """Shared block; None until an environment exists."""
        self._to_record: dict[int, tuple[str, str]] = {}
        """Recording id and file by row, for the row's next episode."""
        self._recordings: dict[int, tuple[str, RecordedEnvironment, Environment]] = {}
        """Recording id, recorded environment and the row's own environment, by row."""
        self._broken: dict[int, EnvCrashed] = {}
        """Rows that made the last step of an episode and cannot begin another."""
        self._ended_lengths = np.zeros(len(setup.seeds), dtype=np.int64)
        """Length of the last ended episode of each row, ``[R]``."""
        self._ended: list[int] = []
        """Rows whose episode ended in the present step."""
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
            block = self.block or self._introduce(environment)
            self._reset(row, environment, block, seed=seed)
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._drop(self._crash(row, error, "reset"))
            return
        self._emit(Began(row))

    def step(self, rows: Rows) -> None:
        """Step the environments of `rows` with the actions in the block; report the results."""
        began = time.perf_counter()
        self._ended.clear()
        is_together = self._is_together[rows]
        together = rows if is_together.all() else rows[is_together]
        came = self._try(self._step_together, together) if len(together) else []
        if len(together) < len(rows):
            for at in np.flatnonzero(~is_together):
                came += self._try(self._step_row, rows[at : at + 1])
        came = self._with_valid_values(came)
        self._report_info(began)
        crashed = self._pop_broken() if self._broken else []
        if came:
            self._emit(StepResult(came, time.perf_counter() - began, crashed))

    def close(self) -> None:
        """Close every environment."""
        for row in range(len(self._rows)):
            with suppress(Exception):  # the others are closed as well
                self._close(row)
        vector, self._vector = self._vector, None
        if vector is not None:
            vector.close()

    def _make(self, row: int) -> Environment:
        spec, kwargs = self._setup.spec, self._setup.kwargs
        if self._setup.wrappers or self._setup.callbacks:
            return self._make_one(spec, kwargs)
        if self._vector is None and not self._has_no_vector:
            self._vector = make_vector(spec, kwargs, rows=len(self._rows))
            self._has_no_vector = self._vector is None
        return (
            self._make_one(spec, kwargs) if self._vector is None else RowOfVector(self._vector, row)
        )

    def _make_one(self, spec: str, kwargs: Mapping[str, Any]) -> Environment:
        setup = self._setup
        return make(spec, kwargs, wrappers=setup.wrappers, callbacks=setup.callbacks)

    def _put(self, row: int, environment: Environment | None) -> None:
        self._rows[row] = environment
        self._is_together[row] = isinstance(environment, RowOfVector)

    def _try(self, step: Callable[[Rows], None], rows: Rows) -> list[int]:
        """Return those of `rows` that were stepped; report the others as broken."""
        try:
            step(rows)
        except Exception as error:  # noqa: BLE001 environments may raise anything
            for row in rows.tolist():
                self._drop(self._crash(row, error, f"step {self._lengths[row] + 1}"))
            return []
        return rows.tolist()

    def _step_together(self, rows: Rows) -> None:
        """Step `rows`, all of which belong to the vector environment."""
        vector, block = self._vector, self.block
        if vector is None or block is None:
            raise RuntimeError("there is no vector environment")
        obs, reward, terminated, truncated, *more = vector.step(rows, block.actions[rows])
        shape = rows.shape
        obs = fitted(obs, (*shape, *block.obs.shape[1:]), block.obs.dtype, "obs")
        terminated = fitted(terminated, shape, block.terminated.dtype, "terminated")
        truncated = fitted(truncated, shape, block.truncated.dtype, "truncated")
        block.reward[rows] = reward = fitted(reward, shape, block.reward.dtype, "reward")
        if not np.vdot(reward, reward) <= MOST:
            require_finite(float(np.abs(reward).max()), "reward")
        block.terminated[rows], block.truncated[rows] = terminated, truncated
        block.obs[rows] = obs
        self._returns[rows] += block.reward[rows]
        self._lengths[rows] += 1
        finals = final_rows(more[0], len(rows)) if more else {}
        if more and more[0]:
            ends = terminated | truncated
            for at, info in enumerate(split_rows(more[0], len(rows))):
                self._add_info(int(rows[at]), info, is_last=bool(ends[at]))
        for ended in np.flatnonzero(terminated | truncated).tolist():
            row = int(rows[ended])
            final = finals.get(ended, obs[ended])
            block.final_obs[row] = fitted(final, obs.shape[1:], obs.dtype, "final_obs")
            self._begin_episode(row, self._rows[row])

    def _step_row(self, rows: Rows) -> None:
        (row,) = rows.tolist()
        environment, block = self._rows[row], self.block
        if environment is None or block is None:
            raise RuntimeError(f"row {row} has no environment")
        # Environments expect a plain int for a discrete action, and may keep an array.
        action = block.actions[row].item() if block.actions.ndim == 1 else block.actions[row].copy()
        obs, reward, terminated, truncated, info = environment.step(action)
        require_finite(reward, "reward")
        self._returns[row] += reward
        self._lengths[row] += 1
        if info:
            self._add_info(row, info, is_last=bool(terminated or truncated))
        block.obs[row] = obs
        block.reward[row] = reward
        block.terminated[row] = terminated
        block.truncated[row] = truncated
        if terminated or truncated:
            block.final_obs[row] = obs
            self._begin_episode(row, environment)

    def _add_info(self, row: int, info: Any, *, is_last: bool) -> None:
        """Add the numbers in the `info` of one step; `is_last` if the step ended its episode.

        An episode that names its task adds its return and its length to those of the task.
        """
        found = episode_info(info) if is_last else info
        for name, value in numbers_of(found):
            self._info.add(name, value, scope="episode" if is_last else "step")
        if is_last and (task := task_of(found)):
            self._info.add(f"task/{task}/return", float(self._returns[row]), scope="episode")
            self._info.add(f"task/{task}/length", float(self._lengths[row]), scope="episode")

    def _report_info(self, now: float) -> None:
        interval = 0.0 if self._setup.is_info_immediate else INFO_SECONDS
        if now - self._info_at < interval or not self._info:
            return
        self._info_at = now
        self._emit(InfoReport(self._info.pop()))

    def record(self, row: int, request_id: str, video: str) -> None:
        """Record the row's next episode."""
        self._to_record[row] = (request_id, video)

    def _pop_broken(self) -> list[EnvCrashed]:
        crashed = list(self._broken.values())
        self._broken.clear()
        for crash in crashed:
            self._close_quietly(crash.row)
        return crashed

    def _begin_episode(self, row: int, environment: Environment | None) -> None:
        """Begin the row's next episode; if that fails, the row breaks after its step is reported.

        Recordings begin and end only here, so a step costs the same with and without them.
        """
        block = self.block
        if block is None or environment is None:
            return
        self._ended.append(row)
        try:
            if row in self._recordings:
                environment = self._end_recording(row)
            if row in self._to_record:
                environment = self._begin_recording(row, environment)
            self._reset(row, environment, block)
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._broken[row] = self._crash(row, error, "reset")

    def _reset(
        self, row: int, environment: Environment, block: EnvBlock, *, seed: int | None = None
    ) -> None:
        """Store the first observation of an episode.

        Raises:
            InvalidValue: If it contains a number that cannot be used; it is not stored then.
        """
        self._ended_lengths[row] = self._lengths[row]
        self._returns[row], self._lengths[row] = 0.0, 0
        obs, _ = environment.reset(seed=seed)
        if self._is_valid is not None and not self._is_valid(obs):
            for text in self._invalid(np.array(obs, block.obs.dtype)[None], "obs").values():
                raise InvalidValue(text)
        block.obs[row] = obs

    def _invalid(self, rows: NDArray[Any], name: str) -> dict[int, str]:
        return invalid_rows(self._space, rows, name) if self._space else {}

    def _with_valid_values(self, came: list[int]) -> list[int]:
        """Return the stepped rows whose observations can be used; report the others as broken."""
        block, is_valid = self.block, self._is_valid
        if block is None or not came:
            return came
        if self._bounds and self._bounds_checks:
            self._compare_bounds(np.asarray(came), block)
        if is_valid is None:
            return came
        # Comparing the rows that did not step costs less than copying those that did.
        obs = block.obs if 2 * len(came) >= len(block.obs) else block.obs[came]
        if is_valid(obs) and all(is_valid(block.final_obs[row]) for row in self._ended):
            return came
        return self._report_invalid(came, block)

    def _report_invalid(self, came: list[int], block: EnvBlock) -> list[int]:
        invalid: dict[int, str] = {}
        for rows, column in ((came, block.obs), (self._ended, block.final_obs)):
            found = self._invalid(column[rows], "obs")
            invalid |= {rows[at]: text for at, text in found.items()}
        for row, text in invalid.items():
            steps = self._ended_lengths[row] if row in self._ended else self._lengths[row]
            self._broken.pop(row, None)
            self._drop(self._crash(row, InvalidValue(text), f"step {steps}"))
            block.obs[row] = np.zeros((), block.obs.dtype)
        return [row for row in came if row not in invalid]

    def _compare_bounds(self, rows: Rows, block: EnvBlock) -> None:
        self._bounds_checks -= 1
        found = outside(self._bounds, block.obs[rows], "obs")
        if found is not None:
            self._bounds_checks = 0
            at, text = found
            self._emit(OutsideBounds(int(rows[at]), f"{self._setup.spec}: {text}"))

    def _begin_recording(self, row: int, own: Environment) -> Environment:
        request_id, video = self._to_record.pop(row)
        try:
            recorded = RecordedEnvironment(
                self._make_one, self._setup.spec, self._setup.kwargs, Path(video)
            )
        except Exception as error:  # noqa: BLE001 environments may raise anything
            self._emit(Recorded(row, request_id, error=f"{type(error).__name__}: {error}"))
            return own
        # The seed depends on the recording id and applies to this episode only.
        recorded.seed = zlib.crc32(request_id.encode()) >> 1
        self._recordings[row] = (request_id, recorded, own)
        self._put(row, recorded)
        return recorded

    def _end_recording(self, row: int) -> Environment:
        request_id, recorded, own = self._recordings.pop(row)
        recorded.finish()
        recorded.close()
        self._put(row, own)
        self._emit(
            Recorded(row, request_id, recorded.total_return, recorded.length, recorded.outcome)
        )
        return own

    def _introduce(self, environment: Environment) -> EnvBlock:
        observation, action = describe(environment)
        self.block = EnvBlock(
            self._memory, rows=len(self._rows), observation=observation, action=action
        )
        self._space, self._is_valid = observation, validity(observation)
        self._bounds = bounds_of(observation)
        self._emit(Ready(observation, action))
        return self.block

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
            return EnvCrashed(row, f"{self._setup.spec}, {call}: {error}", is_invalid_value=True)
        traceback.print_exception(error)
        return EnvCrashed(row, "".join(traceback.format_exception(error, limit=-4)))

    def _close(self, row: int) -> None:
        environment = self._rows[row]
        self._put(row, None)
        _, _, own = self._recordings.pop(row, (None, None, None))
        for one in (environment, own):
            if one is not None:
                one.close()
