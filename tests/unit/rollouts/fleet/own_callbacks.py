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
