"""The trainer with PopArt learns the same for rewards of any scale, and publishes raw values."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from examples.ppo_cartpole import Learner, MlpPolicy, PpoSettings
from examples.ppo_popart import PopArtLearner, main
from rolldeck.batches import Batch
from rolldeck.training.returns import vtrace
from rollouts.fleet.policies import networks
from runs.config.rules.run_config import RunConfig
from tests.unit.client.batch_factories import make_batch_body, make_fragment
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun


def batch(seed: int = 0) -> dict[str, NDArray[Any]]:
    made = [make_fragment(number=seed + number, ends={3: "terminated"}) for number in range(8)]
    return Batch.decode(make_batch_body(made)).stack()


def learner_of(reward_scale: float = 1.0, **settings: Any) -> PopArtLearner:
    torch.manual_seed(0)
    policy = MlpPolicy(4, 2, [8])
    return PopArtLearner(policy, PpoSettings(reward_scale=reward_scale, **settings), 0)


def policy_after(reward_scale: float, *, steps: int = 3) -> torch.Tensor:
    """Return the log probabilities of a policy trained on rewards of this scale."""
    learner = learner_of(reward_scale)
    with torch.no_grad():  # a value of 1 is not the same estimate in every unit, 0 is
        learner._head.weight.zero_()
        learner._head.bias.zero_()
    for step in range(1, steps + 1):
        learner.learn(batch(step), step)
    with torch.no_grad():
        return learner.policy(torch.from_numpy(batch()["obs"]))[0]


@torch.no_grad()
def values_of(learner: PopArtLearner, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    return learner._value_of(arrays["obs"])


@pytest.mark.parametrize("scale", [100.0, 10_000.0])
def test_learning_does_not_depend_on_the_scale_of_the_rewards(scale: float) -> None:
    unscaled = policy_after(1.0)

    torch.testing.assert_close(policy_after(scale), unscaled, rtol=1e-3, atol=1e-3)


def test_an_update_of_the_statistics_changes_no_value() -> None:
    learner = learner_of(1000.0)
    arrays = batch()
    steps = learner._steps(arrays)
    scaled = steps._replace(rewards=steps.rewards * np.float32(1000))

    learner._learned(arrays, scaled)

    assert learner.popart.std[0] > 100
    np.testing.assert_allclose(values_of(learner, arrays), steps.values, atol=1e-2)


def test_targets_are_normalized_and_advantages_are_not() -> None:
    learner = learner_of()
    arrays = batch()
    steps = learner._steps(arrays)
    s = learner.settings
    log_ratio = learner.logprobs(arrays) - arrays["behavior_logprob"]
    raw = vtrace(steps, log_ratio, gamma=s.gamma, lam=s.lam)

    learned = learner._learned(arrays, steps)

    np.testing.assert_array_equal(learned.advantages, raw.advantages)
    assert learned.targets.mean() == pytest.approx(0, abs=1e-5)
    assert learned.targets.std() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(learner.popart.denormalize(learned.targets), raw.targets, atol=1e-5)


def test_values_of_the_fleet_have_the_unit_of_the_rewards() -> None:
    learner = learner_of(1000.0)
    for step in range(1, 4):
        metrics = learner.learn(batch(step), step)
    theirs = networks.MlpPolicy(4, 2, [8])
    obs = batch()["obs"]

    theirs.load_state_dict(learner.weights())

    with torch.no_grad():
        logits, values = theirs(torch.from_numpy(obs))
        ours = learner.policy(torch.from_numpy(obs))[0]
    torch.testing.assert_close(torch.log_softmax(logits, -1), ours)
    np.testing.assert_allclose(values.numpy(), values_of(learner, batch()), rtol=1e-4, atol=0.1)
    assert metrics["value_std"] > 100
    assert metrics["explained_variance"] < 1


def test_a_resumed_trainer_has_the_same_values() -> None:
    before, after = learner_of(1000.0), learner_of(1000.0)
    for step in range(1, 4):
        before.learn(batch(step), step)
    after.policy.load_state_dict(before.weights())
    arrays = batch(9)

    steps = after._steps(arrays)
    after._learned(arrays, steps._replace(rewards=steps.rewards * np.float32(1000)))

    np.testing.assert_allclose(
        values_of(after, arrays), values_of(before, arrays), rtol=1e-3, atol=0.5
    )
    assert after.popart.std[0] > 100


def test_without_popart_a_value_network_cannot_follow_large_rewards() -> None:
    torch.manual_seed(0)
    plain = Learner(MlpPolicy(4, 2, [8]), PpoSettings(learning_rate=1e-2), 0)
    learner = learner_of(1000.0, learning_rate=1e-2)
    arrays = batch()
    arrays["terminated"][:] = True
    arrays["reward"] = arrays["obs"][..., 0].copy()
    large = arrays | {"reward": arrays["reward"] * np.float32(1000)}

    for step in range(1, 11):
        unable = plain.learn(large, step)["explained_variance"]
        able = learner.learn(arrays, step)["explained_variance"]

    assert able > 0.5
    assert unable < 0.1


def test_the_trainer_publishes_then_trains_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ServedRun(RunConfig(), make_fragment=make_fragment)
    words = ["--run", "demo", "--reward-scale", "1000"]

    with serving(run) as server:
        monkeypatch.setattr("sys.argv", ["ppo", "--url", server.url, *words])
        main()

    assert [manifest["step"] for manifest in run.published] == [0, 1, 2, 3]
    assert run.acked == [1, 1, 1]
    names = {sample["name"] for sample in run.logged[0]["samples"]}
    assert names >= {"value_mean", "value_std", "explained_variance", "kl"}
    assert capsys.readouterr().out.count("version") == 4
