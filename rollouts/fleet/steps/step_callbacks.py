"""Call functions for every env step: those that a run names, and those of library users.

The worker reports steps in batches of slots; this module splits them.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.process.extensions import ExtensionFailed, build, raised
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.slots import Slots
from rollouts.fleet.weights.records import Version
from runs.config.rules.extensions import STEP_CALLBACKS
from runs.config.rules.sections import ExtensionConfig


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
        """Handle a step; the arrays are read-only.

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
        self._obs[slot] = _read_only(obs)
        self._episodes[slot] += 1

    def stepped(self, slots: Slots, came: Stepped) -> None:
        obs = _read_only(came.obs)
        for row, slot in enumerate(slots.tolist()):
            outcome = _Outcome(
                float(came.reward[row]), bool(came.terminated[row]), bool(came.truncated[row])
            )
            self._obs[slot], self._last[slot] = obs[row], outcome
            if outcome.terminated or outcome.truncated:
                self._episodes[slot] += 1
                self._has_acted[slot] = False

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        actions = _read_only(decision.actions)
        states = {name: _read_only(rows) for name, rows in state.items()}
        for row, slot in enumerate(slots.tolist()):
            last = self._last[slot]
            self._has_acted[slot] = True
            self._call(
                worker_uuid=self._slots[slot],
                obs=self._obs[slot],
                state={name: rows[row] for name, rows in states.items()},
                action=actions[row],
                last_reward=last.reward,
                last_terminated=last.terminated,
                last_truncated=last.truncated,
                episode_uuid=f"{self._slots[slot]}/{self._episodes[slot]}",
                logprob=float(decision.logprobs[row]),
                value=float(decision.values[row]),
                version=version,
            )

    def aborted(self, slot: int) -> None:
        if self._has_acted[slot]:
            self._last[slot] = _LOST
            self._has_acted[slot] = False

    def given_up(self, slot: int) -> None:
        """Do nothing: the slot has no further steps."""

    def reported_info(self, window: InfoWindow) -> None:
        """Do nothing: `info` is not part of a step."""

    def admitted(self, slots: Slots) -> Slots:
        return slots


class ConfiguredCallbacks(EachStep):
    """Progress handler that passes each step to the step callbacks of a run.

    An exception in a callback is an error of the run, because a new worker would repeat it; `acted`
    raises it as :class:`ExtensionFailed`.
    """

    def __init__(self, callbacks: Sequence[ExtensionConfig], *, slots: Sequence[str]) -> None:
        """Build the registered callbacks of a run; `slots` are the names of the worker's slots.

        Raises:
            ExtensionFailed: If a callback cannot be built, or returns something not callable.
        """
        super().__init__(self._call_all, slots=slots)
        self._callbacks: dict[str, tuple[str, StepCallback]] = {}
        for position, one in enumerate(callbacks):
            field = f"{STEP_CALLBACKS.field}[{position}]"
            callback = build(STEP_CALLBACKS, field, one.kind, one.kwargs)
            if not callable(callback):
                message = f"{one.kind} returned {type(callback).__name__}, which is not callable"
                raise ExtensionFailed(field, message)
            self._callbacks[field] = (one.kind, callback)

    def close(self) -> None:
        for _, callback in self._callbacks.values():
            with suppress(Exception):  # the worker has ended
                getattr(callback, "close", lambda: None)()

    def _call_all(self, **step: Any) -> None:
        for field, (kind, callback) in self._callbacks.items():
            try:
                callback(**step)
            except Exception as error:
                raise raised(field, kind, error) from error


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
