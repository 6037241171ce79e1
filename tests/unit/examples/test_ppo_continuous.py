"""The trainer for continuous actions normalises without changing the policy, and learns."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples.ppo_continuous import GaussianPolicy, Learner, PpoSettings, Scale, main
from rolldeck.batches import Batch
from rolldeck.replay import pack_fragment
from rolldeck.wire import Fragment
from rollouts.fleet.policies.base import GaussianHead
from rollouts.fleet.policies.networks import MlpPolicy
from runs.config.rules.run_config import PRESETS
from tests.unit.client.batch_factories import make_arrays, make_batch_body
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun

OBS = 3


def make_fragment(*, number: int = 0, steps: int = 16) -> Fragment:
    rng = np.random.default_rng(number)
    arrays = make_arrays(steps=steps, seed=number)
    arrays["obs"] = rng.normal((5, -2, 0), (1, 10, 0.1), (steps, OBS)).astype(np.float32)
    arrays["next_obs"] = arrays["obs"][-1] + 1
    arrays["action"] = rng.normal(size=(steps, 1)).astype(np.float32)
    density = -0.5 * (arrays["action"][:, 0] ** 2 + np.log(2 * np.pi))
    arrays["behavior_logprob"] = density.astype(np.float32)
    arrays["reward"] = rng.normal(-8, 3, steps).astype(np.float32)
    return pack_fragment(
        arrays,
        slot="w0-0@t",
        number=number,
        environment="gymnasium:Pendulum-v1",
        worker="w0",
        epoch=1,
        episode_ids=[f"e{number}"],
    )


def made_up_batch(fragments: int = 8) -> dict[str, NDArray[Any]]:
    made = [make_fragment(number=number) for number in range(fragments)]
    return Batch.decode(make_batch_body(made)).stack()


def scaled_policy() -> GaussianPolicy:
    torch.manual_seed(0)
    policy = GaussianPolicy(OBS, 1, [8, 8])
    Learner(policy, PpoSettings(epochs=1), seed=0).learn(made_up_batch())
    return policy


@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    offset=st.floats(-100, 100),
)
def test_a_scale_covers_all_observed_values(seed: int, sizes: list[int], offset: float) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(offset, 3, (size, 2)) for size in sizes]
    scale = Scale(2)

    for part in parts:
        scale.add(torch.tensor(part, dtype=torch.float32))

    seen = np.concatenate(parts)
    np.testing.assert_allclose(scale.mean, seen.mean(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(scale.spread, seen.std(0).clip(1e-4), rtol=1e-2, atol=1e-2)


def test_the_fleet_has_the_outputs_of_the_trainer_without_its_normalization() -> None:
    policy = scaled_policy()
    fleet_policy = MlpPolicy(OBS, 1, [8, 8], is_continuous=True)
    obs = torch.from_numpy(made_up_batch()["obs"])

    fleet_policy.load_state_dict(policy.folded())

    with torch.no_grad():
        means, values = fleet_policy(obs)
        our_means, our_values = policy(obs)
    raw = our_values * policy.value_scale.spread + policy.value_scale.mean
    torch.testing.assert_close(means, our_means, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(values, raw, rtol=1e-3, atol=1e-2)
    assert float(policy.obs_scale.spread[1]) > 5


def test_a_density_equals_that_of_the_fleet() -> None:
    policy = GaussianPolicy(OBS, 2, [8])
    means, actions = torch.randn(4, 5, 2), torch.randn(4, 5, 2)

    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([-0.5, 0.3]))
        actual = policy.logprob(means, actions)
        expected = GaussianHead((2,)).logprob(means, policy.log_std, actions)

    torch.testing.assert_close(actual, expected)


def test_a_resumed_trainer_has_the_same_policy_with_its_own_scales() -> None:
    before, after = scaled_policy(), GaussianPolicy(OBS, 1, [8, 8])
    obs = torch.from_numpy(made_up_batch()["obs"])
    after.unfold(before.folded())

    Learner(after, PpoSettings(), seed=0)._rescale(after.obs_scale, obs.flatten(0, 1))

    with torch.no_grad():
        torch.testing.assert_close(after(obs)[0], before(obs)[0], rtol=1e-3, atol=1e-4)


def test_rewarded_actions_become_more_likely() -> None:
    torch.manual_seed(0)
    policy = GaussianPolicy(OBS, 1, [8])
    learner = Learner(policy, PpoSettings(), seed=0)
    arrays = made_up_batch()
    arrays["reward"] = arrays["action"][..., 0]
    obs = torch.from_numpy(arrays["obs"])

    for _ in range(5):
        metrics = learner.learn(arrays)

    with torch.no_grad():
        assert float(policy(obs)[0].mean()) > 0.1
    assert all(np.isfinite(value) for value in metrics.values())


def test_padding_has_no_gradient() -> None:
    arrays = made_up_batch()
    arrays["mask"] = np.tile(np.arange(16) < 10, (8, 1))
    spoilt = {name: array.copy() for name, array in arrays.items()}
    spoilt["obs"][:, 10:] = spoilt["reward"][:, 10:] = 100

    def weights_after(shown: dict[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
        torch.manual_seed(3)
        policy = GaussianPolicy(OBS, 1, [8])
        Learner(policy, PpoSettings(), seed=3).learn(shown)
        return policy.folded()

    torch.testing.assert_close(weights_after(arrays), weights_after(spoilt))


def test_the_trainer_publishes_then_trains_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ServedRun(PRESETS["pendulum"][1], make_fragment=make_fragment)

    with serving(run) as server:
        monkeypatch.setattr("sys.argv", ["ppo", "--url", server.url, "--run", "demo"])
        main()

    assert [manifest["step"] for manifest in run.published] == [0, 1, 2, 3]
    assert "log_std" in {tensor["name"] for tensor in run.published[0]["tensors"]}
    assert run.acked == [1, 1, 1]
    assert capsys.readouterr().out.count("version") == 3
