"""Roll out and train in lockstep: the fleet's policy, fragments and batches without timing effects.

Train step n learns from the oldest waiting batch, like a trainer behind a queue; the queue is
refilled with the newest version before the next step. So the age of the data is exact and
reproducible, which a run with processes and a network cannot guarantee.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.batches import Batch
from rolldeck.wire import BatchAnswer, BatchHead, Fragment, encode
from rollouts.fleet.environments import loader as environments
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.policy_protocol import for_environment
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.step_columns import Outcomes
from runs.config.rules.run_config import RunConfig

Weights = Mapping[str, NDArray[Any]]
EPOCH = 1


class LockstepFleet:
    """S slots stepped together with one policy; the same seed yields the same steps."""

    def __init__(self, config: RunConfig, *, seed: int) -> None:
        """Reset every environment.

        Args:
            config: Configuration of the run; the batch size determines the number of slots.
            seed: Seed of environments and actions.
        """
        spec, slots = config.environment.spec, config.buffer.batch_size
        self._environments = [
            environments.make(spec, config.environment.kwargs) for _ in range(slots)
        ]
        observation, self._actions = environments.describe(self._environments[0])
        self.policy = make_policy(
            config.policy, observation, self._actions, seed=seed, device="cpu"
        )
        self._rows = np.arange(slots)
        self._state = {name: np.array(x) for name, x in self.policy.initial_state(slots).items()}
        self._cutter = FragmentCutter(
            slots=[f"s{slot}" for slot in range(slots)],
            environment=spec,
            worker="w0",
            fragment_length=config.fleet.fragment_length,
        )
        self._cutter.enter_epoch(EPOCH)
        self._length = config.fleet.fragment_length
        self._episodes = 0
        self._returns = np.zeros(slots)
        self._first = np.ones(slots, dtype=np.bool_)
        self.env_steps = 0
        self.returns: list[tuple[int, float]] = []
        """Env steps at the end of each episode, with its return."""
        begun = [
            np.asarray(environment.reset(seed=derive_seed(seed, slot))[0])
            for slot, environment in enumerate(self._environments)
        ]
        self._obs = np.stack(begun)
        for slot, obs in enumerate(begun):
            self._cutter.begin(slot, obs, episode=self._next_episode())

    def fragments(self, policy_step: int) -> list[Fragment]:
        """Return the next fragment of every slot, sampled with the policy's present weights."""
        cut: list[Fragment] = []
        for _ in range(self._length):
            cut += self._step(policy_step)
        return cut

    def mean_return(self, episodes: int = 20) -> float:
        """Return the mean of the last returns; minus infinity for fewer episodes."""
        last = [value for _, value in self.returns[-episodes:]]
        return float(np.mean(last)) if len(last) == episodes else -math.inf

    def close(self) -> None:
        """Close the environments."""
        for environment in self._environments:
            environment.close()

    def _step(self, policy_step: int) -> list[Fragment]:
        decision = self.policy.act(self._obs, self._state, self._first)
        self._cutter.act(
            self._rows,
            actions=decision.actions,
            logprobs=decision.logprobs,
            values=decision.values,
            policy_step=policy_step,
            state=self._state,
        )
        self._state = {name: np.array(rows) for name, rows in decision.state.items()}
        return self._carry_out(for_environment(decision.actions, self._actions))

    def _carry_out(self, actions: NDArray[Any]) -> list[Fragment]:
        """Step every environment; return the completed fragments."""
        results = [
            environment.step(act)
            for environment, act in zip(self._environments, actions, strict=True)
        ]
        self.env_steps += len(results)
        obs = [np.asarray(row[0]) for row in results]
        rewards = np.array([float(row[1]) for row in results])
        terminated, truncated = (np.array([bool(row[i]) for row in results]) for i in (2, 3))
        self._first = terminated | truncated
        self._returns += rewards
        finals, begun = {}, {}
        for slot in np.flatnonzero(self._first).tolist():
            self.returns.append((self.env_steps, float(self._returns[slot])))
            self._returns[slot] = 0.0
            finals[slot], begun[slot] = obs[slot], self._next_episode()
            obs[slot] = np.asarray(self._environments[slot].reset()[0])
        self._obs = np.stack(obs)
        outcomes = Outcomes(
            rewards, terminated, truncated, np.empty((len(rewards), 0), np.float32), finals
        )
        cut = self._cutter.observe(self._rows, self._obs, outcomes, new_episodes=begun)
        return [fragment for _, fragment in cut]

    def _next_episode(self) -> str:
        self._episodes += 1
        return f"e{self._episodes}"


def train(
    fleet: LockstepFleet,
    *,
    weights: Callable[[], Weights],
    learn: Callable[[dict[str, NDArray[Any]], int], object],
    train_steps: int,
    versions_behind: int = 0,
    until: Callable[[], bool] = lambda: False,
) -> int:
    """Train on one fragment of every slot at a time; return the number of train steps.

    Args:
        fleet: Source of the data.
        weights: Returns the trainer's present weights in the published form.
        learn: Updates the weights from stacked arrays and the train step, from 1.
        train_steps: Maximum number of train steps.
        versions_behind: Age of the data in versions, after the first batches, which are all of
            version 0.
        until: Called after every train step; returns whether to stop.
    """
    waiting: deque[list[Fragment]] = deque()
    fleet.policy.load(weights())
    waiting.extend(fleet.fragments(0) for _ in range(versions_behind))
    for step in range(1, train_steps + 1):
        waiting.append(fleet.fragments(step - 1))
        learn(batch_of(waiting.popleft(), policy_step=step - 1).stack(), step)
        fleet.policy.load(weights())
        if until():
            return step
    return train_steps


def head_of(kind: Literal["groups", "fragments"], *, count: int, policy_step: int) -> BatchHead:
    """Return the head of a batch of `count` items, with version `policy_step` as the newest."""
    return BatchHead(
        id="b",
        ordinal=1,
        fence=1,
        kind=kind,
        count=count,
        lease_seconds=60,
        epoch=EPOCH,
        policy_step=policy_step,
    )


def batch_of(fragments: list[Fragment], *, policy_step: int) -> Batch:
    """Return `fragments` in a trainer's format, with version `policy_step` as the newest."""
    head = head_of("fragments", count=len(fragments), policy_step=policy_step)
    items = [encode(fragment) for fragment in fragments]
    return Batch.decode(encode(BatchAnswer(batch=head, items=items)))
