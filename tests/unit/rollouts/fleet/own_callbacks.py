"""Step callbacks of other packages, good and faulty, as workers get them."""

from pathlib import Path
from typing import Any


class Lines:
    """Writes a line per step, and one when it is closed."""

    def __init__(self, *, file: str) -> None:
        self._file = Path(file)

    def __call__(self, *, worker_uuid: str, obs: Any, last_reward: float, **_: Any) -> None:
        self._write(f"{worker_uuid} {obs[0]:g} {last_reward:g}")

    def close(self) -> None:
        self._write("closed")

    def _write(self, line: str) -> None:
        with self._file.open("a") as writing:
            writing.write(line + "\n")


class Raising:
    """Raises in a step."""

    def __init__(self, *, at: int = 1) -> None:
        self._left = at

    def __call__(self, **_: Any) -> None:
        self._left -= 1
        if not self._left:
            raise ZeroDivisionError("no step")


class Changing:
    """Writes into one of the arrays of a step."""

    def __init__(self, *, argument: str) -> None:
        self._argument = argument

    def __call__(self, **step: Any) -> None:
        step[self._argument][...] = 0


class Narrow:
    """Lacks the arguments of a step."""

    def __call__(self, obs: Any) -> None:
        """Take only an observation."""


def nothing() -> None:
    """Return no callback."""


def fails() -> None:
    raise ZeroDivisionError("no callback")


class Changed:
    """Environment callback that changes everything, and counts its own close."""

    def __init__(self, *, plus: float = 0.0, file: str = "") -> None:
        self._plus, self._file = plus, file

    def after_reset(self, environment: Any, obs: Any, info: dict[str, Any]) -> Any:
        assert environment.action_space.n == 2
        return obs + self._plus, info

    def before_step(self, _: Any, action: Any) -> Any:
        return 1 - action

    def after_step(
        self, _: Any, obs: Any, reward: float, terminated: bool, truncated: bool, info: Any
    ) -> Any:
        return obs + self._plus, reward * 10, terminated, truncated, {**info, "bonus": 7.0}

    def before_close(self, _: Any) -> None:
        if self._file:
            with Path(self._file).open("a") as writing:
                writing.write("before_close\n")


class Short:
    """Environment callback that returns too few values."""

    def after_step(self, _: Any, *values: Any) -> Any:
        return values[:4]


class RaisesInStep:
    """Environment callback that raises in its step."""

    def before_step(self, *_: Any) -> Any:
        raise ZeroDivisionError("no action")


class Wide:
    """Environment callback whose observations are outside of the space."""

    def after_step(self, _: Any, obs: Any, *rest: Any) -> Any:
        return [*obs, 0.0], *rest
