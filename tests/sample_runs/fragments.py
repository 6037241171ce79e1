"""Fragments that resemble sampled CartPole episodes."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.fleet_wire import episode_id
from rolldeck.wire import Fragment, encode, pack_array
from tests.sample_runs.timeline import incarnation_of, worker_id

SPEC: Final = "gymnasium:CartPole-v1"
STEPS: Final = 32
EPOCH: Final = 1


@dataclass(slots=True, kw_only=True)
class Slot:
    """One env slot; each fragment continues where the last one ended."""

    worker: int
    slot: int
    random: np.random.Generator
    episode_steps: int = 60
    """Current mean length of an episode, in env steps."""
    _number: int = 0
    _left: int = field(default=0)
    _episode: int = 0
    _state: NDArray[np.float32] = field(default_factory=lambda: np.zeros(4, np.float32))

    def next(self, *, policy_step: int) -> tuple[Fragment, bytes]:
        """Return the slot's next fragment, sampled by one policy version, and its bytes."""
        arrays, episodes = self._rolled_out(policy_step)
        fragment = Fragment(
            slot=self._name,
            number=self._number,
            contiguous=self._number > 0,
            environment=SPEC,
            worker=worker_id(self.worker),
            epoch=EPOCH,
            version_min=policy_step,
            version_max=policy_step,
            steps=STEPS,
            episode_ids=episodes,
            arrays={name: pack_array(array) for name, array in arrays.items()},
        )
        self._number += 1
        return fragment, encode(fragment)

    def _rolled_out(self, policy_step: int) -> tuple[dict[str, NDArray[Any]], list[str]]:
        obs = np.empty((STEPS, 4), np.float32)
        marks = {name: np.zeros(STEPS, bool) for name in ("first", "terminated", "truncated")}
        index = np.zeros(STEPS, np.int32)
        episodes = [self._episode_id()]
        for step in range(STEPS):
            if self._left == 0:
                marks["first"][step] = True
                self._begin()
                if step:
                    episodes.append(self._episode_id())
                else:
                    episodes[0] = self._episode_id()
            obs[step], index[step] = self._state, len(episodes) - 1
            self._state = self._state + self.random.normal(0, 0.03, 4).astype(np.float32)
            self._left -= 1
            marks["terminated"][step] = self._left == 0
        arrays: dict[str, NDArray[Any]] = {
            "obs": obs,
            "action": self.random.integers(0, 2, STEPS),
            "reward": np.ones(STEPS, np.float32),
            "behavior_logprob": np.log(self.random.uniform(0.3, 0.95, STEPS)).astype(np.float32),
            "value": self.random.normal(20, 4, STEPS).astype(np.float32),
            "policy_step": np.full(STEPS, policy_step, np.int32),
            "episode_index": index,
            "next_obs": self._state,
        }
        return arrays | marks, episodes

    def _begin(self) -> None:
        self._episode += 1
        self._left = max(int(self.random.normal(self.episode_steps, 6)), 9)
        self._state = self.random.uniform(-0.05, 0.05, 4).astype(np.float32)

    def _episode_id(self) -> str:
        return episode_id(self._name, self._episode)

    @property
    def _name(self) -> str:
        return f"w{self.worker}-{self.slot}@{incarnation_of(self.worker)}"
