"""Fleet and trainer use the same network, and actions have correct log probabilities."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.networks import MlpPolicy, TorchMlp
from rollouts.fleet.policies.policy_protocol import NoWeights, WeightsDoNotFit, for_environment
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import derive_seed

OBS = Space(kind="box", shape=(4,), dtype="float32")
TWO = Space(kind="discrete", shape=(), dtype="int64", choices=2)
BOX = Space(kind="box", shape=(1,), dtype="float32", low=[-2.0], high=[2.0])
FIRST = np.zeros(3, dtype=np.bool_)


def tensors(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def test_tensor_names_are_those_that_trainers_publish() -> None:
    names = set(MlpPolicy(4, 2, [64, 64]).state_dict())

    assert names == {
        f"{net}_net.{layer}.{kind}"
        for net in ("policy", "value")
        for layer in (0, 2, 4)
        for kind in ("weight", "bias")
    }


def test_frequencies_of_discrete_actions_match_their_logprobs() -> None:
    module = MlpPolicy(4, 2, [8])
    module.policy_net[-1].bias.data[0] = 1.0
    policy = TorchMlp(OBS, TWO, hidden_sizes=[8], seed=1)
    policy.load(tensors(module))

    decision = policy.act(np.zeros((20_000, 4), dtype=np.float32), {}, FIRST)

    for action in (0, 1):
        chosen = decision.actions == action
        assert np.exp(decision.logprobs[chosen][0]) == pytest.approx(chosen.mean(), abs=0.02)


def test_continuous_actions_have_a_gaussian_logprob_and_stay_inside_bounds() -> None:
    policy = TorchMlp(OBS, BOX, hidden_sizes=[8], seed=1)
    policy.load(tensors(MlpPolicy(4, 1, [8], is_continuous=True)))

    decision = policy.act(np.zeros((500, 4), dtype=np.float32), {}, FIRST)

    expected = -0.5 * (decision.actions[:, 0] ** 2 + np.log(2 * np.pi))
    assert decision.logprobs == pytest.approx(expected, abs=0.2)
    assert np.abs(for_environment(decision.actions * 10, BOX)).max() == 2.0


def test_weights_of_another_network_are_refused_completely() -> None:
    policy = TorchMlp(OBS, TWO, hidden_sizes=[8], seed=1)

    with pytest.raises(WeightsDoNotFit, match=r"policy_net\.0"):
        policy.load(tensors(MlpPolicy(4, 2, [16])))


def test_a_policy_does_not_act_before_it_has_weights() -> None:
    policy = TorchMlp(OBS, TWO, hidden_sizes=[8], seed=1)

    with pytest.raises(NoWeights):
        policy.act(np.zeros((3, 4), dtype=np.float32), {}, FIRST)


def test_prepared_weights_change_nothing_until_they_are_adopted() -> None:
    policy = TorchMlp(OBS, TWO, hidden_sizes=[8], seed=1)
    policy.load(tensors(MlpPolicy(4, 2, [8])))
    obs = np.ones((3, 4), dtype=np.float32)
    before = policy.act(obs, {}, FIRST).values
    other = MlpPolicy(4, 2, [8])
    arrays = tensors(other)

    prepared = policy.prepare(arrays)
    # The trainer may reuse its memory at once.
    with torch.no_grad():
        expected = other(torch.from_numpy(obs))[1].numpy().copy()
    arrays["value_net.0.weight"][:] = 0.0

    assert np.array_equal(policy.act(obs, {}, FIRST).values, before)
    policy.adopt(prepared)
    assert policy.act(obs, {}, FIRST).values == pytest.approx(expected, abs=1e-6)


def test_read_only_weights_are_used_where_they_are() -> None:
    policy = TorchMlp(OBS, TWO, hidden_sizes=[8], seed=1, device="cpu")
    arrays = tensors(MlpPolicy(4, 2, [8]))
    frozen = {name: value.copy() for name, value in arrays.items()}
    for value in frozen.values():
        value.setflags(write=False)

    def addresses(module: Any) -> dict[str, int]:
        return {name: value.data_ptr() for name, value in module.state_dict().items()}

    assert addresses(policy.prepare(frozen)) == {n: v.ctypes.data for n, v in frozen.items()}
    copied = addresses(policy.prepare(arrays))
    assert not set(copied.values()) & {value.ctypes.data for value in arrays.values()}


def test_every_kind_of_layer_uses_its_loaded_weights() -> None:
    class Layered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6)])
            self.memory = nn.GRU(6, 3, num_layers=2)

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                obs = block(obs)
            return torch.as_tensor(self.memory(obs)[0])

    class Policy(TorchPolicy):
        def _run(
            self,
            module: nn.Module,
            obs: Any,
            state: Any,  # noqa: ARG002 base class
            first: Any,  # noqa: ARG002 base class
        ) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
            outputs = module(torch.from_numpy(obs))
            return outputs[:, :2], outputs[:, 2], {}

    policy = Policy(Layered(), observation=OBS, action=TWO, seed=1, device="cpu")
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    versions = [Layered().eval() for _ in range(2)]
    prepared = [policy.prepare(tensors(version)) for version in versions]

    for version, weights in zip(versions, prepared, strict=True):
        policy.adopt(weights)
        with torch.no_grad():
            expected = version(torch.from_numpy(obs))[:, 2]
        assert policy.act(obs, {}, FIRST).values == pytest.approx(expected.numpy(), abs=1e-6)


def test_a_seed_depends_on_its_purpose_only() -> None:
    assert derive_seed(7, "worker", 0) == derive_seed(7, "worker", 0)
    assert derive_seed(7, "worker", 0) != derive_seed(7, "worker", 1)
