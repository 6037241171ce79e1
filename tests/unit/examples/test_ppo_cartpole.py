"""The example trainer computes its documented loss and learns from examples."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from examples.ppo_cartpole import Learner, MlpPolicy, PpoSettings, main
from rolldeck.batches import Batch
from rollouts.fleet.policies import networks
from runs.config.rules.run_config import RunConfig
from tests.unit.client.batch_factories import make_batch_body, make_fragment
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun


def test_each_kind_of_observation_gets_its_own_value() -> None:
    fragment = make_fragment(ends={2: "terminated", 5: "truncated"})
    arrays = Batch.decode(make_batch_body([fragment])).stack()
    policy = MlpPolicy(4, 2, [8])

    steps = Learner(policy, PpoSettings(), seed=0)._steps(arrays)

    @torch.no_grad()
    def value_of(obs: NDArray) -> float:
        return float(policy(torch.from_numpy(obs))[1])

    assert steps.values[0, 3] == pytest.approx(value_of(arrays["obs"][0, 3]), abs=1e-6)
    assert steps.next_values[0, 2] == 0
    assert steps.next_values[0, 5] == pytest.approx(value_of(arrays["final_obs"][1]), abs=1e-6)
    assert steps.next_values[0, 7] == pytest.approx(value_of(arrays["next_obs"][0]), abs=1e-6)


def test_steps_of_another_policy_have_importance_weights() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment()])).stack()
    policy = MlpPolicy(4, 2, [8])
    learner = Learner(policy, PpoSettings(advantages="vtrace"), seed=0)
    arrays["behavior_logprob"][:, 4:] = np.log(0.9)
    steps = learner._steps(arrays)

    weights = learner._learned(arrays, steps).weights[0]

    # Fresh logits are almost equal: probability 0.5 for each action.
    np.testing.assert_allclose(weights[:4], 1, atol=0.05)
    np.testing.assert_allclose(weights[4:], 0.5 / 0.9, atol=0.05)
    as_its_own = Learner(policy, PpoSettings(advantages="gae"), seed=0)
    assert (as_its_own._learned(arrays, steps).weights == 1).all()


def test_padding_has_no_gradient() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment(number=n) for n in range(4)])).stack()
    arrays["mask"] = np.tile(np.arange(8) < 5, (4, 1))
    spoilt = {name: array.copy() for name, array in arrays.items()}
    spoilt["obs"][:, 5:] = spoilt["reward"][:, 5:] = 100

    def weights_after(shown: dict[str, NDArray]) -> list[NDArray]:
        torch.manual_seed(3)
        policy = MlpPolicy(4, 2, [8])
        Learner(policy, PpoSettings(), seed=3).learn(shown, 1)
        return [x.detach().numpy() for x in policy.parameters()]

    for one, other in zip(weights_after(arrays), weights_after(spoilt), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_rewarded_action_becomes_more_likely() -> None:
    torch.manual_seed(0)
    policy = MlpPolicy(4, 2, [8])
    learner = Learner(policy, PpoSettings(), seed=0)
    arrays = Batch.decode(make_batch_body([make_fragment(number=n) for n in range(8)])).stack()
    arrays["reward"] = arrays["action"].astype(np.float32)
    obs = torch.from_numpy(arrays["obs"])

    with torch.no_grad():
        before = float(policy(obs)[0].exp()[..., 1].mean())
    for step in range(1, 9):
        metrics = learner.learn(arrays, step)
    with torch.no_grad():
        after = float(policy(obs)[0].exp()[..., 1].mean())

    assert after > before + 0.03
    assert set(metrics) >= {"loss", "kl", "entropy", "explained_variance", "learning_rate"}
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize(
    ("train_step", "rate"), [(1, 9.99e-4), (100, 9e-4), (1000, 1e-4), (2000, 1e-4)]
)
def test_the_learning_rate_falls_with_real_env_steps(train_step: int, rate: float) -> None:
    arrays = Batch.decode(make_batch_body([make_fragment(number=n) for n in range(4)])).stack()
    arrays["mask"] = np.tile(np.arange(8) < 5, (4, 1))
    settings = PpoSettings(epochs=1, annealing_env_steps=18_000)

    metrics = Learner(MlpPolicy(4, 2, [8]), settings, seed=0).learn(arrays, train_step)

    assert metrics["learning_rate"] == pytest.approx(rate, rel=1e-2)


def test_the_reward_scale_multiplies_every_reward() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment(number=n) for n in range(4)])).stack()
    larger = arrays | {"reward": arrays["reward"] * np.float32(4)}

    def loss(shown: dict[str, NDArray], scale: float) -> float:
        torch.manual_seed(3)
        settings = PpoSettings(reward_scale=scale)
        return Learner(MlpPolicy(4, 2, [8]), settings, seed=3).learn(shown, 1)["value_loss"]

    assert loss(larger, 0.25) == loss(arrays, 1.0) != loss(larger, 1.0)


def test_the_same_seed_has_the_same_result() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment(number=n) for n in range(4)])).stack()

    def weights_after_learning() -> list[NDArray]:
        torch.manual_seed(3)
        policy = MlpPolicy(4, 2, [8])
        Learner(policy, PpoSettings(), seed=3).learn(arrays, 1)
        return [x.detach().numpy() for x in policy.parameters()]

    for one, other in zip(weights_after_learning(), weights_after_learning(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_fleet_loads_the_weights_of_the_trainer() -> None:
    torch.manual_seed(0)
    trained = MlpPolicy(4, 2, [64, 64])
    fleet_policy = networks.MlpPolicy(4, 2, [64, 64])
    obs = torch.randn(5, 4)

    fleet_policy.load_state_dict(trained.state_dict())

    with torch.no_grad():
        logits, values = fleet_policy(obs)
        torch.testing.assert_close(torch.log_softmax(logits, -1), trained(obs)[0])
        torch.testing.assert_close(values, trained(obs)[1])


def test_the_trainer_publishes_then_trains_logs_and_acknowledges_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = ServedRun(RunConfig(), make_fragment=make_fragment)

    with serving(platform) as server:
        monkeypatch.setattr("sys.argv", ["ppo", "--url", server.url, "--run", "demo"])
        main()

    assert [manifest["step"] for manifest in platform.published] == [0, 1, 2, 3]
    assert [server.path for server in server.seen][:3] == [
        "/api/v1/runs/demo/trainers",
        "/api/v1/runs/demo/weights",
        "/api/v1/runs/demo/batches/next",
    ]
    assert platform.acked == [1, 1, 1]
    names = {sample["name"] for sample in platform.logged[0]["samples"]}
    assert names >= {"loss", "kl", "entropy", "explained_variance", "staleness"}
    assert capsys.readouterr().out.count("version") == 4
