"""Call a function for every env step, for whoever wants steps and no fragments.

The worker hands its steps over in batches of slots; this takes them apart.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.slot_queue import Slots
from rollouts.fleet.weights.records import Version


class StepCallback(Protocol):
    """Takes one env step, at the moment at which its action is chosen."""

    def __call__(
        self,
        *,
        worker_uuid: str,
        obs: NDArray[Any],
        state: State,
        action: NDArray[Any],
        last_reward: float,
        last_terminated: bool,
        last_truncated: bool,
        episode_uuid: str,
        logprob: float,
        value: float,
        version: Version,
    ) -> None:
        """Take a step.

        Args:
            worker_uuid: The env slot.
            obs: What it shows, ``[…]``.
            state: The policy's before this step, without the axis of slots.
            action: What is done, ``[…]``.
            last_reward: For the slot's action before this one; 0 before its first.
            last_terminated: Whether that action ended its episode, or there was none.
            last_truncated: Whether that episode was cut off, or its environment was lost.
            episode_uuid: The episode that this step belongs to.
            logprob: Of the action, natural log.
            value: Of the observation, as the policy sees it.
            version: Epoch and step of the weights that acted.
        """


class _Outcome(NamedTuple):
    reward: float
    terminated: bool
    truncated: bool


_NOTHING_BEFORE = _Outcome(0.0, terminated=True, truncated=False)
_LOST = _Outcome(0.0, terminated=False, truncated=True)


class EachStep:
    """The progress handler of a worker whose steps a function takes, one by one.

    The function runs in the worker's loop: what it takes, all slots wait for.
    """

    def __init__(self, call: StepCallback, *, slots: Sequence[str]) -> None:
        """Hand steps to `call`; `slots` are the names of the worker's slots."""
        self._call = call
        self._slots = slots
        self._obs: list[NDArray[Any]] = [np.empty(0)] * len(slots)
        self._last = [_NOTHING_BEFORE] * len(slots)
        self._episodes = [0] * len(slots)
        self._has_acted = [False] * len(slots)
        """Whether the slot is in an episode in which something was done."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Take the first observation of a new environment."""
        self._obs[slot] = obs
        self._episodes[slot] += 1

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Keep what followed the actions of ``slots [N]``: it belongs to their next steps."""
        for row, slot in enumerate(slots.tolist()):
            outcome = _Outcome(
                float(came.reward[row]), bool(came.terminated[row]), bool(came.truncated[row])
            )
            self._obs[slot], self._last[slot] = came.obs[row], outcome
            if outcome.terminated or outcome.truncated:
                self._episodes[slot] += 1
                self._has_acted[slot] = False

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        """Hand over the steps of ``slots [N]``."""
        for row, slot in enumerate(slots.tolist()):
            last = self._last[slot]
            self._has_acted[slot] = True
            self._call(
                worker_uuid=self._slots[slot],
                obs=self._obs[slot],
                state={name: rows[row] for name, rows in state.items()},
                action=decision.actions[row],
                last_reward=last.reward,
                last_terminated=last.terminated,
                last_truncated=last.truncated,
                episode_uuid=f"{self._slots[slot]}/{self._episodes[slot]}",
                logprob=float(decision.logprobs[row]),
                value=float(decision.values[row]),
                version=version,
            )

    def aborted(self, slot: int) -> None:
        """End the slot's episode here, if it was in one: its environment is gone."""
        if self._has_acted[slot]:
            self._last[slot] = _LOST
            self._has_acted[slot] = False

    def given_up(self, slot: int) -> None:
        """Expect nothing more of the slot."""

    def admitted(self, slots: Slots) -> Slots:
        """Let every slot act: nothing is stored that could become too much."""
        return slots
