"""Step many of Gymnasium's CartPole-v1 together, bit-identical to single environments."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils import seeding
from numpy.typing import NDArray

ID = "CartPole-v1"
RESET_LIMIT = 0.05
"""Maximum absolute value of each of the four numbers at the start of an episode."""


class CartPoles:
    """R cart poles; see :class:`rollouts.fleet.environments.contract.VectorEnvironment`.

    Gymnasium's vector environment steps all rows at once and spends a step on each reset. Here any
    subset of rows can be stepped with the same equations, and each row has its own random numbers.
    """

    def __init__(self, rows: int) -> None:
        """Set up the rows, before their first episodes."""
        self._one = CartPoleEnv()
        self.observation_space = self._one.observation_space
        self.action_space = self._one.action_space
        self._time_limit = gymnasium.spec(ID).max_episode_steps or np.iinfo(np.int64).max
        self._state = np.zeros((4, rows))
        """Position and velocity of the cart, angle and angular velocity of the pole, ``[4, R]``."""
        self._lengths = np.zeros(rows, dtype=np.int64)
        """Steps of the current episodes, ``[R]``."""
        self._random = [seeding.np_random()[0] for _ in range(rows)]

    def reset(self, row: int, *, seed: int | None = None) -> NDArray[np.float32]:
        """Begin an episode of one row; return its first observation."""
        if seed is not None:
            self._random[row] = seeding.np_random(seed)[0]
        begun = self._random[row].uniform(low=-RESET_LIMIT, high=RESET_LIMIT, size=(4,))
        self._state[:, row] = begun
        self._lengths[row] = 0
        return begun.astype(np.float32)

    def step(
        self, rows: NDArray[np.intp], actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
        """Push each of ``rows [N]`` to the left (0) or to the right (1)."""
        like = self._one
        before = self._state[:, rows]
        _, speed, angle, angular_speed = before
        cos, sin = np.cos(angle), np.sin(angle)
        force = np.where(actions == 1, like.force_mag, -like.force_mag)
        # Same order of operations as CartPoleEnv.step, because another order rounds differently.
        push = (force + like.polemass_length * np.square(angular_speed) * sin) / like.total_mass
        angular_acceleration = (like.gravity * sin - cos * push) / (
            like.length * (4.0 / 3.0 - like.masspole * np.square(cos) / like.total_mass)
        )
        acceleration = push - like.polemass_length * angular_acceleration * cos / like.total_mass
        change = np.stack((speed, acceleration, angular_speed, angular_acceleration))
        after = before + like.tau * change
        self._state[:, rows] = after
        self._lengths[rows] += 1
        terminated = (np.abs(after[0]) > like.x_threshold) | (
            np.abs(after[2]) > like.theta_threshold_radians
        )
        truncated = self._lengths[rows] >= self._time_limit
        return after.T.astype(np.float32), np.ones(len(rows)), terminated, truncated

    def close(self) -> None:
        """Do nothing: there are no resources."""
