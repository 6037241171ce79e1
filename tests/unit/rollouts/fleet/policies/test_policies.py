"""Fleet and trainer use the same network, and actions have correct log probabilities."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rolldeck import safetensors
from rolldeck.safetensors import array_of
from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.policies.base import (
    BIT_DTYPES,
    TorchPolicy,
    arrays_of,
    packed,
    tensor_of,
    unpacked,
)
from rollouts.fleet.policies.factory import RegisteredPolicy, make_module, make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import (
    NoWeights,
    PolicyDoesNotFit,
    WeightsDoNotFit,
    for_environment,
)
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import derive_seed
from runs.config.rules.sections import PolicyConfig
from tests.unit.rollouts.fleet.engine.small_models import small_model

OBS = Space(kind="box", shape=(4,), dtype="float32")
TWO = Space(kind="discrete", shape=(), dtype="int64", choices=2)
BOX = Space(kind="box", shape=(1,), dtype="float32", low=[-2.0], high=[2.0])
FIRST = np.zeros(3, dtype=np.bool_)
VECTOR = Space(kind="box", shape=(4,), dtype="float32")
PAIRS = Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[3, 2])
UNIT_BOX = Space(kind="box", shape=(2,), dtype="float32", low=[0.0, 0.0], high=[1.0, 1.0])
BOUNDED = "module:own_networks:Bounded"
ROWS = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
RESULTS = [
    torch.tensor([1, -(2**62), 3]),
    torch.tensor([0.1, float("-inf"), -1e-30]),
    torch.randn(3, 2, 4),
    torch.randn(4, 3).T,  # not contiguous
    torch.tensor([[True], [False], [True]]),
    torch.empty(3, 0),
]


def tensors(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def mlp(action: Space = TWO) -> TorchPolicy:
    return make_policy(PolicyConfig(hidden_sizes=[8]), OBS, action, seed=1, device="cpu")


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
    policy = mlp()
    policy.load(tensors(module))

    decision = policy.act(np.zeros((20_000, 4), dtype=np.float32), {}, FIRST)

    for action in (0, 1):
        chosen = decision.actions == action
        assert np.exp(decision.logprobs[chosen][0]) == pytest.approx(chosen.mean(), abs=0.02)


def test_continuous_actions_have_a_gaussian_logprob_and_stay_inside_bounds() -> None:
    policy = mlp(BOX)
    policy.load(tensors(MlpPolicy(4, 1, [8], is_continuous=True)))

    decision = policy.act(np.zeros((500, 4), dtype=np.float32), {}, FIRST)

    expected = -0.5 * (decision.actions[:, 0] ** 2 + np.log(2 * np.pi))
    assert decision.logprobs == pytest.approx(expected, abs=0.2)
    assert np.abs(for_environment(decision.actions * 10, BOX)).max() == 2.0


def test_weights_of_another_network_are_refused_completely() -> None:
    policy = mlp()

    with pytest.raises(WeightsDoNotFit, match=r"policy_net\.0"):
        policy.load(tensors(MlpPolicy(4, 2, [16])))


def test_a_policy_does_not_act_before_it_has_weights() -> None:
    policy = mlp()

    with pytest.raises(NoWeights):
        policy.act(np.zeros((3, 4), dtype=np.float32), {}, FIRST)


def test_prepared_weights_change_nothing_until_they_are_adopted() -> None:
    policy = mlp()
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
    policy = mlp()
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


@pytest.mark.parametrize(
    ("kind", "action"),
    [("mlp", TWO), ("mlp", PAIRS), ("mlp", UNIT_BOX), ("gru", TWO), (BOUNDED, UNIT_BOX)],
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

    policy = RegisteredPolicy(Mixture(), kind="k", observation=VECTOR, action=UNIT_BOX, seed=0)
    policy.load({})
    policy.is_deterministic = True

    with pytest.raises(PolicyDoesNotFit, match=r"has no mode; set evaluation\.deterministic"):
        policy.act(ROWS, {}, np.ones(len(ROWS), np.bool_))


@pytest.mark.parametrize("kind", sorted(BIT_DTYPES))
@pytest.mark.parametrize("is_writable", [False, True])
def test_bits_become_the_original_tensor(kind: str, is_writable: bool) -> None:
    tensor = torch.randn(4, 3).to(BIT_DTYPES[kind])
    array = array_of(tensor)
    array.flags.writeable = is_writable

    result = tensor_of(array)

    assert result.dtype == tensor.dtype
    assert torch.equal(result.float(), tensor.float())
    assert (result.data_ptr() == tensor.data_ptr()) is not is_writable, "a lender may write to it"


@pytest.mark.parametrize("own", [torch.bfloat16, torch.float32])
def test_an_engine_keeps_its_dtype_and_every_bit_of_bfloat16(own: torch.dtype) -> None:
    published = dict(named_tensors(small_model(seed=1).bfloat16()))
    content = safetensors.encode({name: array_of(part) for name, part in published.items()})
    server = TorchInferenceServer(small_model().to(own), rows=1)
    try:
        prepared = server.prepare(safetensors.decode(content))
    finally:
        server.close()

    for name, part in named_tensors(prepared):
        assert part.dtype == own
        assert torch.equal(part.bfloat16(), published[name])


class OnDevice(torch.Tensor):
    """A tensor that numpy can read only after `cpu`, like one on a GPU."""

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor)

    def numpy(self) -> None:  # type: ignore[override]
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __array__(self, *_: object) -> None:  # type: ignore[override]
        self.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_published_tensors_may_be_on_a_device_and_require_gradients(dtype: torch.dtype) -> None:
    values = torch.arange(6).reshape(2, 3).to(dtype)
    there = values.clone().as_subclass(OnDevice)
    with pytest.raises(TypeError, match="cuda"):
        np.asarray(there)

    published = {"there": array_of(there)}
    if dtype.is_floating_point:
        published["learned"] = array_of(torch.nn.Parameter(values))

    for array in safetensors.decode(safetensors.encode(published)).values():
        found = tensor_of(array)
        assert found.dtype == dtype
        assert torch.equal(found, values)


def test_packed_results_are_the_same_arrays() -> None:
    together = packed(RESULTS)
    found = unpacked(together.numpy(), RESULTS)

    assert together.dtype == torch.uint8
    assert together.shape == (3, 8 + 4 + 32 + 16 + 1)
    for array, tensor in zip(found, RESULTS, strict=True):
        assert array.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(array, tensor.numpy())


def test_results_on_the_cpu_are_not_copied() -> None:
    (array,) = arrays_of([RESULTS[2]])

    assert array.ctypes.data == RESULTS[2].data_ptr()
