"""Misbehaving environments, registered as ``odd:<name>`` inside env processes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rollouts.fleet.environments.loader import register, register_vector
from rollouts.fleet.policies.spaces import Space


class Counting(gymnasium.Env[Any, Any]):
    """Environment with a reward of 1 per step and episodes of `length` steps."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *, length: int = 10, seconds: float = 0.0, raises_at: int = 0) -> None:
        self._length = length
        self._seconds = seconds
        self._raises_at = raises_at
        self._step = 0
        self._seed = 0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._seed = self._seed if seed is None else seed
        self._step = 0
        return self._obs(), {}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._step += 1
        if self._step == self._raises_at:
            raise RuntimeError(f"broken at step {self._step}")
        return self._obs(), 1.0, self._step >= self._length, False, {}

    def _obs(self) -> Any:
        return np.array([self._step, self._seed % 1000, 0, 0], dtype=np.float32)


class Measuring(Counting):
    """Environment with numbers, and other values, in its `info`."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = super().step(action)
        info = {"speed": np.float32(self._step), "won": True, "map": "a", "bad": float("nan")}
        return obs, reward, terminated, truncated, info


LABELLED_AS: tuple[Callable[[int], Any], ...] = (
    float,
    int,
    np.float32,
    np.int64,
    np.array,
    lambda label: np.array([label]),
)
"""Types of numbers, used in turn."""


class Labelled(Counting):
    """Environment whose steps have the label 100 · episode + step, in reward and `info`.

    Episodes are counted from 1 and last two to four steps. The observation has the label of the
    step before, so an action is followed by the label of its observation, plus 1.
    """

    def __init__(self, *, exits_at: int = 0, raises_at: int = 0) -> None:
        super().__init__()
        self._episode = 0
        self._exits_at, self._raises_at_label = exits_at, raises_at

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._episode += 1
        obs, _ = super().reset(seed=seed)
        return obs, {"label": -1.0}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        label = self._label()
        if label == self._exits_at:
            os._exit(3)
        if label == self._raises_at_label:
            raise RuntimeError("broken")
        info = {
            "label": LABELLED_AS[label % len(LABELLED_AS)](label),
            "nested": {"half": label / 2},
            "is_odd": label % 2 == 1,
            "text": "a",
            "none": None,
            "pair": np.zeros(2),
            "infinite": float("inf"),
        }
        if label % 2:
            info["odd"] = label
        is_over = self._step == 2 + self._episode % 3
        if is_over:
            info["episode"] = {"r": 100 * self._episode * self._step + sum(range(self._step + 1))}
        return self._obs(), float(label), is_over, False, info

    def _label(self) -> int:
        return 100 * self._episode + self._step

    def _obs(self) -> Any:
        return np.array([self._label(), 0, 0, 0], dtype=np.float32)


class LabelledRows:
    """Labelled environments that step together."""

    observation_space = Space(kind="box", shape=(4,), dtype="float32")
    action_space = Space(kind="discrete", shape=(), dtype="int64", choices=2)

    def __init__(self, rows: int) -> None:
        self._episodes, self._steps = np.zeros(rows, np.int64), np.zeros(rows, np.int64)

    def reset(self, row: int, *, seed: int | None = None) -> Any:  # noqa: ARG002
        self._episodes[row] += 1
        self._steps[row] = 0
        return self._obs(np.array([row]))[0]

    def step(self, rows: Any, _: Any) -> Any:
        self._steps[rows] += 1
        episodes, steps = self._episodes[rows], self._steps[rows]
        labels, is_over = 100 * episodes + steps, steps == 2 + episodes % 3
        total = 100 * episodes * steps + steps * (steps + 1) // 2
        info = {
            "label": labels,
            "nested": {"half": labels / 2},
            "is_odd": labels % 2 == 1,
            "text": np.full(len(rows), "a"),
            "none": np.full(len(rows), None),
            "pair": np.zeros((len(rows), 2)),
            "infinite": np.full(len(rows), np.inf),
            "odd": labels,
            "_odd": labels % 2 == 1,
            "episode": {"r": total},
            "_episode": is_over,
        }
        never = np.zeros(len(rows), dtype=np.bool_)
        return self._obs(rows), labels.astype(float), is_over, never, info

    def close(self) -> None:
        """Do nothing."""

    def _obs(self, rows: Any) -> Any:
        obs = np.zeros((len(rows), 4), dtype=np.float32)
        obs[:, 0] = 100 * self._episodes[rows] + self._steps[rows]
        return obs


class Tasks(Counting):
    """Environment with two tasks in turn: `push` takes two steps, `lift` takes three."""

    def __init__(self) -> None:
        super().__init__(length=3)
        self._task = "lift"

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._task = "push" if self._task == "lift" else "lift"
        self._length = 2 if self._task == "push" else 3
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"task": self._task}


class Talking(Counting):
    """Environment that prints each call."""

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        print("I was reset")  # noqa: T201 output for the log
        return super().reset(seed=seed)


class Drawing(Counting):
    """Environment that renders in the mode it was built with."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 20}

    def __init__(self, *, modes: str = "rgb_array ansi", render_mode: str = "", **kwargs: Any):
        if render_mode and render_mode not in modes:
            raise ValueError(f"no render mode {render_mode}")
        self._mode = render_mode
        super().__init__(**kwargs)

    def render(self) -> Any:  # type: ignore[override]
        if self._mode == "ansi":
            return f"\x1b[31mat step {self._step}\x1b[0m"
        picture = np.full((51, 80, 3), 255, np.uint8)
        picture[:, : self._step * 5] = (200, 30, 60)
        return picture


class Closing(Counting):
    """Environment that writes a line when it is closed."""

    def __init__(self, *, folder: str, fails_in_reset: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._file = Path(folder) / "closed"
        self._fails_in_reset = fails_in_reset

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        if self._fails_in_reset:
            raise RuntimeError("no episode")
        return super().reset(seed=seed)

    def close(self) -> None:
        with self._file.open("a") as writing:
            writing.write(f"{os.getpid()}/{id(self)}\n")


class Stray(Counting):
    """Environment that starts a child process, like a simulator, and never ends it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        subprocess.Popen(["sleep", "600"])


class Ending(Counting):
    """Environment whose step `at` does not return; its rewards are the numbers of its steps.

    With ``how="reset"``, the episode ends in the step before, and no other can begin.
    """

    def __init__(self, *, how: str, at: int) -> None:
        super().__init__(length=at - 1 if how == "reset" else 1000)
        self._how, self._at = how, at

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        if self._how == "reset" and self._step:
            raise RuntimeError("no further episode")
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._step + 1 == self._at:
            if self._how == "exit":
                os._exit(3)
            if self._how == "fault":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self._how == "hang":
                time.sleep(3600)
            if self._how == "nan":
                return self._obs() * np.nan, 1.0, False, False, {}
            if self._how == "reward":
                return self._obs(), np.ones(2), False, False, {}  # type: ignore[return-value]
            what = "caf\udce9.txt" if self._how == "bytes" else f"broken at step {self._at}"
            raise RuntimeError(what)
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(self._step), terminated, truncated, info


def _make(name: str, kwargs: Mapping[str, Any]) -> Any:
    kinds = {
        "talking": Talking,
        "measuring": Measuring,
        "tasks": Tasks,
        "labelled": Labelled,
        "drawing": Drawing,
        "stray": Stray,
        "closing": Closing,
        "deadly": Deadly,
        "ending": Ending,
    }
    return kinds.get(name, Counting)(**kwargs)


_made = 0


def _raise_in_row_0(name: str, kwargs: Mapping[str, Any]) -> Any:
    """Break the first environment of the initial ones, and all that are built later."""
    global _made
    _made += 1
    return Counting(raises_at=3) if _made == 1 or _made > 4 else Counting(**kwargs)


def _one_is_slow(name: str, kwargs: Mapping[str, Any]) -> Any:
    """Delay each step of the first environment by half a second."""
    try:
        Path(kwargs["marker"]).touch(exist_ok=False)
    except FileExistsError:
        return Counting()
    return Counting(seconds=0.5)


class Hanging(Counting):
    """Environment that hangs in its third step, once across all instances."""

    def __init__(self, *, marker: str) -> None:
        super().__init__()
        self._marker = Path(marker)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._step == 2 and self._is_first():
            time.sleep(3600)
        return super().step(action)

    def _is_first(self) -> bool:
        """Return True for one instance of all processes."""
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _hang(name: str, kwargs: Mapping[str, Any]) -> Any:
    return Hanging(**kwargs)


class Deadly(Counting):
    """Environment that kills its process in the third step, like a fault in native code."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._step == 2:
            os._exit(3)
        return super().step(action)


_uneven_made = 0


def _uneven(name: str, kwargs: Mapping[str, Any]) -> Any:
    """Build environments whose episodes have 3 steps, except the first one: 30 steps."""
    global _uneven_made
    _uneven_made += 1
    return Counting(length=30 if _uneven_made == 1 else 3)


_is_spared: bool | None = None


def _one_process_lives(name: str, kwargs: Mapping[str, Any]) -> Any:
    """Build working environments in the first process, and deadly ones in all others."""
    global _is_spared
    if _is_spared is None:
        try:
            Path(kwargs["marker"]).touch(exist_ok=False)
            _is_spared = True
        except FileExistsError:
            _is_spared = False
    return Counting() if _is_spared else Deadly()


register("odd", _make)
register_vector("odd:labelled-rows", lambda _, rows: LabelledRows(rows))
register("one_slow", _one_is_slow)
register("one_hangs", _hang)
register("one_odd", _raise_in_row_0)
register("uneven", _uneven)
register("one_lives", _one_process_lives)
