"""Catch: a minimal game with image observations."""

from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

BRIGHT: Final = 255


class Catch(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """A ball falls down a board, and a paddle in the lowest row must catch it.

    An observation is the board, ``[height, width, 1]`` bytes, with ball and paddle at 255.
    Actions move the paddle: 0 left, 1 not at all, 2 right. The episode ends when the ball is down,
    with a reward of 1 if the paddle is below it and −1 otherwise.
    """

    def __init__(self, *, height: int = 10, width: int = 5) -> None:
        """Create a board of `height` rows and `width` columns.

        Raises:
            ValueError: If either size is below 2.
        """
        if height < 2 or width < 2:
            raise ValueError(f"catch needs a board of at least 2 × 2, not {height} × {width}")
        self.observation_space = gymnasium.spaces.Box(0, BRIGHT, (height, width, 1), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self._height = height
        self._width = width
        self._row = 0
        self._column = 0
        self._paddle = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin an episode with a new ball."""
        super().reset(seed=seed, options=options)
        self._row = 0
        self._column = int(self.np_random.integers(self._width))
        self._paddle = self._width // 2
        return self._board(), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move the paddle, then the ball."""
        self._paddle = min(self._width - 1, max(0, self._paddle + int(action) - 1))
        self._row += 1
        is_down = self._row == self._height - 1
        caught = 1.0 if self._paddle == self._column else -1.0
        return self._board(), caught if is_down else 0.0, is_down, False, {}

    def _board(self) -> NDArray[np.uint8]:
        board = np.zeros((self._height, self._width, 1), dtype=np.uint8)
        board[self._row, self._column] = BRIGHT
        board[-1, self._paddle] = BRIGHT
        return board
