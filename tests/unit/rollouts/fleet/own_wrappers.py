"""Wrappers of other packages, good and faulty, as env processes get them."""

from typing import Any

import gymnasium


class Scaled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Multiplies rewards, then adds to them."""

    def __init__(self, env: Any, *, factor: float = 1.0, plus: float = 0.0) -> None:
        super().__init__(env)
        self._factor, self._plus = factor, plus

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs, reward * self._factor + self._plus, *rest


class FourValues(gymnasium.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        return self.env.step(action)[:4]


def nothing(_: Any) -> None:
    """Return no environment."""


def fails(_: Any) -> None:
    raise ZeroDivisionError("no wrapper")
