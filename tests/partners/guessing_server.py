"""OpenEnv server on loopback with a guessing game; its argument is the port.

The secret is the seed of the reset, or 5. An episode ends with the right guess, which is worth 1.
Other guesses cost a tenth.
"""

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    """A guess."""

    number: int


class Hint(Observation):
    """Reply to a guess."""

    hint: str = ""


class GuessingGame(Environment):
    """One game."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._secret = 5
        self._state = State(step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Hint:
        """Begin a game."""
        self._secret = 5 if seed is None else seed
        self._state = State(episode_id=episode_id, step_count=0)
        return Hint(hint="guess a number", done=False, reward=None)

    def step(self, action: Guess, **_: Any) -> Hint:
        """Compare a guess."""
        self._state.step_count += 1
        if action.number == self._secret:
            return Hint(hint="right", done=True, reward=1.0)
        hint = "higher" if action.number < self._secret else "lower"
        return Hint(hint=hint, done=False, reward=-0.1)

    @property
    def state(self) -> State:
        """State of the game."""
        return self._state


if __name__ == "__main__":
    app = create_app(GuessingGame, Guess, Hint, env_name="guessing", max_concurrent_envs=16)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
