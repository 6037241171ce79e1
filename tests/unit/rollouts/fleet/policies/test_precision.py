"""Half precision changes results within its rounding, and fragments stay float32."""

from typing import Any

import numpy as np
import pytest
import torch

from rollouts.fleet.policies.base import dtype_of
from rollouts.fleet.policies.factory import make_module, make_policy
from rollouts.fleet.policies.policy_protocol import Decision, PolicyDoesNotFit
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.probe.command import probe
from rollouts.fleet.probe.messages import ProbeRequest
from runs.config.rules import run_config
from runs.config.rules.run_config import InvalidRunConfig
from runs.config.rules.sections import PolicyConfig
from tests.unit.rollouts.fleet.device_copies import DeviceCopies

VECTOR = Space(kind="box", shape=(4,), dtype="float32")
IMAGE = Space(kind="box", shape=(12, 12, 3), dtype="uint8")
TWO = Space(kind="discrete", shape=(), dtype="int64", choices=2)
BOX = Space(kind="box", shape=(2,), dtype="float32", low=[0.0, 0.0], high=[1.0, 1.0])
KINDS = [
    ("mlp", VECTOR, TWO),
    ("mlp", VECTOR, BOX),
    ("cnn", IMAGE, TWO),
    ("gru", VECTOR, TWO),
    ("gru", IMAGE, BOX),
    ("module:own_networks:Plain", VECTOR, TWO),
    ("module:own_networks:Bounded", VECTOR, BOX),
]
BATCH = 64


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_POLICIES", ",".join(kind for kind, _, _ in KINDS))


def loaded(kind: str, observation: Space, action: Space, precision: str) -> Any:
    sizes: dict[str, Any] = {"hidden_sizes": [32], "recurrent_units": 16, "channels": [4]}
    config = PolicyConfig(kind=kind, precision=precision, **sizes)  # type: ignore[arg-type]
    torch.manual_seed(0)
    module = make_module(config, observation, action)
    policy = make_policy(config, observation, action, seed=1, device="cpu")
    policy.load({name: value.numpy() for name, value in module.state_dict().items()})
    return policy


def decide(policy: Any, observation: Space) -> Decision:
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (BATCH, *observation.shape)) / 255
    obs = (rows * 255 if observation.is_image else rows - 0.5).astype(observation.dtype)
    decision: Decision = policy.act(obs, policy.initial_state(BATCH), np.ones(BATCH, np.bool_))
    return decision


@pytest.mark.parametrize(("kind", "observation", "action"), KINDS)
def test_bfloat16_is_close_to_float32(kind: str, observation: Space, action: Space) -> None:
    exact = decide(loaded(kind, observation, action, "float32"), observation)
    half = decide(loaded(kind, observation, action, "bfloat16"), observation)

    assert half.logprobs.dtype == half.values.dtype == np.float32
    assert half.actions.dtype == (np.float32 if action.kind == "box" else np.int64)
    assert half.state.keys() == exact.state.keys()
    np.testing.assert_allclose(half.values, exact.values, atol=0.05)
    for name, rows in half.state.items():
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, exact.state[name], atol=0.02)
    same = (half.actions == exact.actions) if action.kind == "discrete" else np.ones(BATCH, bool)
    assert same.mean() > 0.9
    np.testing.assert_allclose(half.logprobs[same], exact.logprobs[same], atol=0.1)


@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_the_network_computes_in_bfloat16(kind: str) -> None:
    exact = decide(loaded(kind, VECTOR, TWO, "float32"), VECTOR)
    half = decide(loaded(kind, VECTOR, TWO, "bfloat16"), VECTOR)

    assert not np.array_equal(half.values, exact.values)
    assert np.array_equal(half.values, torch.from_numpy(half.values).bfloat16().float().numpy())


def test_the_deviation_of_continuous_actions_stays_float32() -> None:
    policy = loaded("mlp", VECTOR, BOX, "bfloat16")
    module = policy.prepare(
        {name: np.full(value.shape, 0.1, np.float32) for name, value in weights_of(policy).items()}
    )

    assert module.log_std.tolist() == [np.float32(0.1)] * 2
    assert module.policy_net[0].weight.dtype == torch.bfloat16


def weights_of(policy: Any) -> dict[str, torch.Tensor]:
    return dict(policy._template.state_dict())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("kind", "observation", "action"), KINDS[:-1])
def test_a_step_copies_from_the_device_once(
    kind: str, observation: Space, action: Space, precision: str
) -> None:
    policy = loaded(kind, observation, action, precision)
    expected = decide(loaded(kind, observation, action, precision), observation)

    with DeviceCopies() as copies:
        decision = decide(policy, observation)

    assert copies.names == ["cpu"]
    np.testing.assert_array_equal(decision.actions, expected.actions)
    np.testing.assert_array_equal(decision.logprobs, expected.logprobs)
    np.testing.assert_array_equal(decision.values, expected.values)


def test_a_cpu_refuses_float16() -> None:
    with pytest.raises(PolicyDoesNotFit, match="float16 needs a GPU") as refused:
        make_policy(PolicyConfig(precision="float16"), VECTOR, TWO, seed=1, device="cpu")

    assert refused.value.field == "policy.precision"


def test_a_gpu_without_bfloat16_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla T4")

    with pytest.raises(PolicyDoesNotFit, match="Tesla T4 does not support bfloat16") as refused:
        dtype_of("bfloat16", torch.device("cuda"))

    assert refused.value.field == "policy.precision"
    assert dtype_of("float16", torch.device("cuda")) == torch.float16


@pytest.mark.parametrize("fleet", [{}, {"device": "cpu", "num_gpus_per_worker": 0.5}])
def test_a_run_without_a_gpu_refuses_float16(fleet: dict[str, Any]) -> None:
    with pytest.raises(InvalidRunConfig, match=r"float16 needs a GPU: set fleet\.num") as refused:
        run_config.parse({"policy": {"precision": "float16"}, "fleet": fleet})

    assert refused.value.field == "policy.precision"
    run_config.parse({"policy": {"precision": "float16"}, "fleet": {"num_gpus_per_worker": 0.5}})
    run_config.parse({"policy": {"precision": "bfloat16"}})


def test_a_probe_without_a_gpu_checks_a_float16_policy() -> None:
    outcome = probe(
        ProbeRequest(
            kind="environment",
            spec="gymnasium:CartPole-v1",
            policy={"kind": "module:own_networks:Plain", "precision": "float16"},
        )
    )

    assert outcome.policy_trouble == ""
    assert outcome.parameters == 10
