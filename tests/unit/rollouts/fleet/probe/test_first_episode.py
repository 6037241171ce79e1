"""An episode of random actions probes an environment and detects invalid observations."""

from typing import Any

import numpy as np
import pytest

from rollouts.fleet.policies import factory
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.probe.command import probe
from rollouts.fleet.probe.first_episode import SHOWN_REWARDS, play, random_action
from rollouts.fleet.probe.messages import Outcome, ProbeRequest

FLAT = Space(kind="box", shape=(2,), dtype="float32")
SIDES = Space(kind="discrete", shape=(), dtype="int64", choices=3, start=5)


class Scripted:
    """Environment with scripted observations that ends after a number of steps."""

    observation_space: Any = FLAT
    action_space: Any = SIDES

    def __init__(self, *, length: int, obs: Any = (0.0, 0.0), reward: float = 1.0) -> None:
        self.length, self.obs, self.reward = length, np.array(obs, np.float32), reward
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        self.taken = []
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        return self.obs, self.reward, False, len(self.taken) == self.length, {}

    def close(self) -> None:
        pass


def test_the_first_episode_is_played_to_its_end_with_valid_actions() -> None:
    environment = Scripted(length=300)

    episode = play(environment, FLAT, SIDES, steps=1000)

    assert (episode.steps, episode.ended, episode.total_return) == (300, "truncated", 300.0)
    assert len(episode.rewards) == SHOWN_REWARDS
    assert set(environment.taken) == {5, 6, 7}


@pytest.mark.parametrize(
    ("obs", "message"),
    [((0.0, np.nan), "obs[1] is nan"), ((0.0,), "shape [1]"), ((0.0, 1.0), "")],
)
def test_observations_outside_their_space_are_reported(obs: Any, message: str) -> None:
    outside = play(Scripted(length=3, obs=obs), FLAT, SIDES, steps=10).outside

    assert message in outside
    assert bool(outside) == bool(message)


def test_a_reward_that_is_not_finite_has_no_sum() -> None:
    episode = play(Scripted(length=2, reward=float("inf")), FLAT, SIDES, steps=10)

    assert (episode.total_return, episode.rewards) == (None, [None, None])


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (Space(kind="box", shape=(2,), dtype="float32", low=[0, -5], high=[1, -4]), -5, 1),
        (Space(kind="box", shape=(3,), dtype="float32"), -1, 1),
        (Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[2, 3]), 0, 2),
    ],
)
def test_actions_have_the_form_of_their_space(space: Space, low: float, high: float) -> None:
    rng = np.random.default_rng(1)
    rows = [random_action(space, rng) for _ in range(200)]

    assert {row.shape for row in rows} == {space.shape}
    assert {row.dtype for row in rows} == {np.dtype(space.dtype)}
    assert low <= min(row.min() for row in rows) < max(row.max() for row in rows) <= high


def test_the_environment_is_reported_before_the_policy_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Outcome] = []
    before: list[int] = []

    def fail(*_: object, **__: object) -> None:
        before.append(len(reported))
        raise RuntimeError("no policy")

    monkeypatch.setattr(factory, "make_policy", fail)
    request = ProbeRequest(
        kind="environment", spec="gymnasium:CartPole-v1", policy={"kind": "module:a:B"}
    )

    outcome = probe(request, report=reported.append)

    assert before == [1]
    assert [(one.stage, one.observation) for one in reported] == [("policy", "float32 [4]")]
    assert (outcome.stage, outcome.policy_trouble) == ("", "RuntimeError: no policy")
    assert outcome.observation == "float32 [4]"
