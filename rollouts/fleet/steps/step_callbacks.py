"""Call a function for every env step, for users who need steps instead of fragments.

The worker reports steps in batches of slots; this module splits them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.slot_queue import Slots
from rollouts.fleet.weights.records import Version


class StepCallback(Protocol):
    """Function that takes one env step when its action is chosen."""

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
        """Handle a step.

        Args:
            worker_uuid: The env slot.
            obs: Observation, ``[…]``.
            state: State of the policy before this step, without the slot axis.
            action: Action, ``[…]``.
            last_reward: Reward of the slot's previous action; 0 before its first.
            last_terminated: Whether that action ended its episode; True if there was none.
            last_truncated: Whether that episode was truncated, or its environment was lost.
            episode_uuid: The episode of this step.
            logprob: Natural log probability of the action.
            value: The policy's value of the observation.
            version: Epoch and step of the weights in use.
        """


class _Outcome(NamedTuple):
    reward: float
    terminated: bool
    truncated: bool


_NOTHING_BEFORE = _Outcome(0.0, terminated=True, truncated=False)
_LOST = _Outcome(0.0, terminated=False, truncated=True)


class EachStep:
    """Progress handler that passes each step to a function.

    The function runs in the worker's loop, so its time delays all slots.
    """

    def __init__(self, call: StepCallback, *, slots: Sequence[str]) -> None:
        """Pass steps to `call`; `slots` are the names of the worker's slots."""
        self._call = call
        self._slots = slots
        self._obs: list[NDArray[Any]] = [np.empty(0)] * len(slots)
        self._last = [_NOTHING_BEFORE] * len(slots)
        self._episodes = [0] * len(slots)
        self._has_acted = [False] * len(slots)
        """Whether the slot has acted in its current episode."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Store the first observation of a new environment."""
        self._obs[slot] = obs
        self._episodes[slot] += 1

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Store the results of the actions of ``slots [N]``, which belong to their next steps."""
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
        """Pass on the steps of ``slots [N]``."""
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
        """End the slot's episode, if one was in progress: its environment is lost."""
        if self._has_acted[slot]:
            self._last[slot] = _LOST
            self._has_acted[slot] = False

    def given_up(self, slot: int) -> None:
        """Do nothing: the slot has no further steps."""

    def reported_info(self, window: InfoWindow) -> None:
        """Do nothing: `info` is not part of a step."""

    def admitted(self, slots: Slots) -> Slots:
        """Admit every slot: steps are not stored, so there is no limit."""
        return slots
