"""Recall: a minimal task that requires memory."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class Recall(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A cue of the first observation must be named at the end.

    An observation is one-hot over the cues, followed by 1.0 if the question is asked. The first
    one shows the cue, followed by `delay` blank ones and the question. The answer ends the episode
    with a reward of 1 if it names the cue, else 0; earlier actions have no effect. Without memory,
    the best mean return is 1 / `cues`.
    """

    def __init__(self, *, cues: int = 2, delay: int = 8) -> None:
        """Create a task of `delay` + 2 steps.

        Args:
            cues: Number of cues, which are also the actions.
            delay: Number of blank steps between the cue and the question.

        Raises:
            ValueError: If `cues` is below 2 or `delay` is negative.
        """
        if cues < 2 or delay < 0:
            raise ValueError(f"recall needs cues ≥ 2 and delay ≥ 0, not {cues} and {delay}")
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(cues)
        self._cues = cues
        self._delay = delay
        self._cue = 0
        self._at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode with a new cue."""
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(self._cues))
        self._at = 0
        return self._shown(self._cue), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advance one step; the step after the question takes the answer."""
        self._at += 1
        is_answered = self._at == self._delay + 2
        is_asked = self._at == self._delay + 1
        reward = float(is_answered and int(action) == self._cue)
        return self._shown(self._cues if is_asked else None), reward, is_answered, False, {}

    def _shown(self, at: int | None) -> NDArray[np.float32]:
        observation = np.zeros(self._cues + 1, dtype=np.float32)
        if at is not None:
            observation[at] = 1.0
        return observation
