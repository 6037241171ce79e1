"""The IMPALA example joins fragments and computes its documented loss."""

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.lockstep import LockstepFleet, batch_of
from examples.impala_chunks import SETTINGS, ImpalaLearner, main
from examples.ppo_recurrent import MlpPolicy, RecurrentPolicy, chosen, policy_for, read
from rolldeck.batches import Batch
from rolldeck.wire import Fragment
from runs.config.rules import run_config
from runs.config.rules.run_config import RunConfig
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun

SLOTS, LENGTH = 3, 4


def config_of(kind: str) -> RunConfig:
    return run_config.parse(
        {
            "environment": {"spec": "rolldeck:recall-v0", "kwargs": {"cues": 4, "delay": 3}},
            "policy": {"kind": kind, "hidden_sizes": [8], "recurrent_units": 8},
            "fleet": {"fragment_length": LENGTH},
            "buffer": {"batch_size": SLOTS},
        }
    )


def fresh_policy(kind: str) -> RecurrentPolicy | MlpPolicy:
    torch.manual_seed(0)
    policy = policy_for(run_config.to_builtins(config_of(kind)))
    with torch.no_grad():  # imitates training: fresh heads hardly use the recurrent state
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return policy


def rolled_out(policy: Any, kind: str, *, times: int, begins: int = 0) -> list[Fragment]:
    """Return `times` consecutive fragments of every slot, after `begins` others."""
    fleet = LockstepFleet(config_of(kind), seed=0)
    fleet.policy.load({name: value.numpy() for name, value in policy.state_dict().items()})
    made = [fleet.fragments(0) for _ in range(begins + times)]
    return [fragment for some in made[begins:] for fragment in some]


def joined(fragments: list[Fragment]) -> dict[str, Any]:
    batch: Batch = batch_of(fragments, policy_step=0)
    return dict(ImpalaLearner.arrays_of(batch))


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_a_chunk_is_evaluated_as_its_fragments_were_sampled(kind: str) -> None:
    policy = fresh_policy(kind)

    arrays = joined(rolled_out(policy, kind, times=5, begins=1))

    assert arrays["obs"].shape[:2] == (SLOTS, 5 * LENGTH)
    assert not arrays["first"][:, 0].all()
    rows = read(arrays)
    with torch.no_grad():
        logits, values, _ = policy(rows["obs"], rows["hidden"], rows["first"])
    logprobs = chosen(logits, rows["action"])
    np.testing.assert_allclose(logprobs, arrays["behavior_logprob"], atol=1e-4)
    np.testing.assert_allclose(values, arrays["value"], atol=1e-4)


def test_a_step_learns_from_fragments_before_its_own() -> None:
    policy = fresh_policy("gru")
    rows = read(joined(rolled_out(policy, "gru", times=3)))
    rows["obs"].requires_grad_()
    rows["first"][:, 1:] = False

    policy(rows["obs"], rows["hidden"], rows["first"])[1][:, -1].sum().backward()

    assert (rows["obs"].grad[:, 0].abs().sum(-1) > 0).all()


def test_the_gradient_is_the_weighted_policy_gradient() -> None:
    policy = fresh_policy("mlp")
    learner = ImpalaLearner(policy, 0)
    arrays = joined(rolled_out(policy, "mlp", times=2))
    rows = read(arrays)
    rows["behavior"] = rows["behavior"] + torch.linspace(-1, 1, rows["behavior"].numel()).view_as(
        rows["behavior"]
    )
    rows |= {"advantage": torch.randn(SLOTS, 8), "target": torch.randn(SLOTS, 8)}
    policy.zero_grad()
    logits, values, _ = policy(rows["obs"], rows["hidden"], rows["first"])
    logprobs = chosen(logits, rows["action"])
    rho = (logprobs - rows["behavior"]).exp().clamp(max=1).detach()
    entropy = -(logits.exp() * logits).sum(-1)
    expected = (
        -(rho * rows["advantage"] * logprobs)
        + SETTINGS.value_coefficient * (values - rows["target"]) ** 2
        - SETTINGS.entropy_coefficient * entropy
    ).mean()
    expected.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), SETTINGS.max_gradient_norm)
    gradients = [parameter.grad.clone() for parameter in policy.parameters()]

    metrics = learner._update(rows)

    assert metrics["loss"] == pytest.approx(float(expected.detach()), rel=1e-5)
    for parameter, gradient in zip(policy.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_chunks_of_unequal_length_train_on_real_steps_only() -> None:
    policy = fresh_policy("gru")
    fragments = rolled_out(policy, "gru", times=3)[:-1]  # the last slot lacks its third fragment
    arrays = joined(fragments)
    spoilt = {name: array.copy() for name, array in arrays.items()}
    spoilt["obs"][~arrays["mask"]] = spoilt["reward"][~arrays["mask"]] = 100

    def weights_after(shown: dict[str, Any]) -> dict[str, torch.Tensor]:
        one = fresh_policy("gru")
        ImpalaLearner(one, 3).learn(shown)
        return dict(one.state_dict())

    assert arrays["mask"].sum(axis=1).tolist() == [12, 12, 8]
    torch.testing.assert_close(weights_after(arrays), weights_after(spoilt))


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_a_rewarded_action_becomes_more_likely(kind: str) -> None:
    policy = fresh_policy(kind)
    learner = ImpalaLearner(policy, 0)
    arrays = joined(rolled_out(policy, kind, times=6))
    arrays["reward"] = (arrays["action"] == 1).astype(np.float32)
    rows = read(arrays)

    def likelihood() -> float:
        with torch.no_grad():
            logits, _, _ = policy(rows["obs"], rows["hidden"], rows["first"])
        return float(logits.exp()[..., 1].mean())

    before = likelihood()
    for _ in range(20):
        metrics = learner.learn(arrays)

    assert likelihood() > before + 0.05
    assert all(np.isfinite(value) for value in metrics.values())


def test_the_trainer_publishes_then_trains_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rolled_out(fresh_policy("gru"), "gru", times=4)
    run = ServedRun(config_of("gru"), make_fragment=lambda number: made[number])

    with serving(run) as server:
        monkeypatch.setattr("sys.argv", ["impala", "--url", server.url, "--run", "demo"])
        main()

    assert [manifest["step"] for manifest in run.published] == [0, 1, 2, 3]
    assert run.acked == [1, 1, 1]
    assert capsys.readouterr().out.count("version") == 3
