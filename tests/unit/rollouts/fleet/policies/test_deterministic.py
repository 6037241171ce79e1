"""A deterministic policy repeats its actions, with their log probabilities."""

import numpy as np
import pytest
import torch

from rollouts.fleet.policies.factory import RegisteredPolicy, make_module, make_policy
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from rollouts.fleet.policies.spaces import Space
from runs.config.rules.policy_config import PolicyConfig

VECTOR = Space(kind="box", shape=(4,), dtype="float32")
TWO = Space(kind="discrete", shape=(), dtype="int64", choices=2)
PAIRS = Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[3, 2])
BOX = Space(kind="box", shape=(2,), dtype="float32", low=[0.0, 0.0], high=[1.0, 1.0])
BOUNDED = "module:own_networks:Bounded"
ROWS = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "action"), [("mlp", TWO), ("mlp", PAIRS), ("mlp", BOX), ("gru", TWO), (BOUNDED, BOX)]
)
def test_actions_are_the_most_likely_ones(
    monkeypatch: pytest.MonkeyPatch, kind: str, action: Space
) -> None:
    monkeypatch.setenv("ROLLDECK_POLICIES", BOUNDED)
    config = PolicyConfig(kind=kind, hidden_sizes=[8], recurrent_units=8)
    policy = make_policy(config, VECTOR, action, seed=1, device="cpu")
    state = make_module(config, VECTOR, action).state_dict()
    policy.load({name: value.numpy() for name, value in state.items()})
    first = np.ones(len(ROWS), np.bool_)
    sampled = [policy.act(ROWS, policy.initial_state(len(ROWS)), first) for _ in range(20)]
    policy.is_deterministic = True
    one, other = (policy.act(ROWS, policy.initial_state(len(ROWS)), first) for _ in range(2))

    np.testing.assert_array_equal(one.actions, other.actions)
    assert one.actions.shape == sampled[0].actions.shape
    assert one.actions.dtype == sampled[0].actions.dtype
    for each in sampled:
        assert (one.logprobs >= each.logprobs - 1e-5).all()


def test_a_distribution_without_a_mode_is_refused() -> None:
    class Mixture(torch.nn.Module):
        def distribution(self, outputs: torch.Tensor) -> torch.distributions.Distribution:
            return torch.distributions.MixtureSameFamily(
                torch.distributions.Categorical(torch.ones(len(outputs), 2)),
                torch.distributions.Normal(torch.zeros(len(outputs), 2), torch.ones(2)),
            )

        def forward(self, obs: torch.Tensor, *_: object) -> object:
            return obs, None, {}

    policy = RegisteredPolicy(Mixture(), kind="k", observation=VECTOR, action=BOX, seed=0)
    policy.adopt_initial_weights()
    policy.is_deterministic = True

    with pytest.raises(PolicyDoesNotFit, match=r"has no mode; set evaluation\.deterministic"):
        policy.act(ROWS, {}, np.ones(len(ROWS), np.bool_))
