"""The recurrent trainer reproduces the fleet's actions from fragments."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.lockstep import LockstepFleet, batch_of
from examples.ppo_recurrent import (
    Learner,
    MlpPolicy,
    PpoSettings,
    RecurrentPolicy,
    chosen,
    main,
    policy_for,
    read,
)
from rolldeck.wire import Fragment
from rollouts.fleet.policies import networks
from runs.config.rules import run_config
from runs.config.rules.run_config import RunConfig
from tests.unit.client.failing_server import serving
from tests.unit.examples.served_run import ServedRun

INPUTS, ACTIONS, UNITS = 5, 4, 8


def config_of(kind: str) -> RunConfig:
    return run_config.parse(
        {
            "environment": {"spec": "rolldeck:recall-v0", "kwargs": {"cues": ACTIONS, "delay": 3}},
            "policy": {"kind": kind, "hidden_sizes": [8], "recurrent_units": UNITS},
            "fleet": {"fragment_length": 13},
            "buffer": {"batch_size": 4},
        }
    )


def fresh_policy(kind: str) -> RecurrentPolicy | MlpPolicy:
    torch.manual_seed(0)
    policy = policy_for(run_config.to_builtins(config_of(kind)))
    with torch.no_grad():  # imitates training: fresh heads hardly use the recurrent state
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return policy


def rolled_out(
    policy: RecurrentPolicy | MlpPolicy, kind: str, *, times: int
) -> list[list[Fragment]]:
    """Return `times` successive fragments of every slot."""
    fleet = LockstepFleet(config_of(kind), seed=0)
    fleet.policy.load({name: value.numpy() for name, value in policy.state_dict().items()})
    return [fleet.fragments(0) for _ in range(times)]


def stacked(fragments: list[Fragment]) -> dict[str, NDArray[Any]]:
    return batch_of(fragments, policy_step=0).stack()


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_a_fragment_is_evaluated_as_it_was_sampled(kind: str) -> None:
    policy = fresh_policy(kind)
    arrays = stacked(rolled_out(policy, kind, times=3)[-1])

    fragments = read(arrays)
    with torch.no_grad():
        logits, values, _ = policy(fragments["obs"], fragments["hidden"], fragments["first"])

    logprobs = chosen(logits, fragments["action"])
    np.testing.assert_allclose(logprobs, arrays["behavior_logprob"], atol=1e-4)
    np.testing.assert_allclose(values, arrays["value"], atol=1e-4)
    assert arrays["first"].any()
    assert not arrays["first"][:, 0].all()


def test_the_fleet_loads_the_weights_of_the_recurrent_trainer() -> None:
    policy = fresh_policy("gru")
    fleet_policy = networks.RecurrentPolicy(
        INPUTS, ACTIONS, hidden_sizes=[8], recurrent_units=UNITS
    )

    fleet_policy.load_state_dict(policy.state_dict())

    assert [tuple(x.shape) for x in fleet_policy.parameters()] == [
        tuple(x.shape) for x in policy.parameters()
    ]


def test_the_value_behind_a_fragment_uses_the_recurrent_state() -> None:
    policy = fresh_policy("gru")
    learner = Learner(policy, PpoSettings(gamma=1.0, lam=0.0), seed=0)
    before, after = (stacked(made) for made in rolled_out(policy, "gru", times=2))

    targets = learner._learned(before, read(before)).targets

    # With lambda 0 a target is the reward plus the next value, here that of the next fragment.
    goes_on = ~(before["terminated"] | before["truncated"])[:, -1]
    expected = before["reward"][:, -1] + np.where(goes_on, after["value"][:, 0], 0)
    np.testing.assert_allclose(targets[:, -1], expected, atol=1e-4)
    assert goes_on.any()


def test_a_truncated_episode_is_bootstrapped_with_its_recurrent_state() -> None:
    policy = fresh_policy("gru")
    learner = Learner(policy, PpoSettings(gamma=1.0, lam=0.0), seed=0)
    arrays = stacked(rolled_out(policy, "gru", times=1)[0])
    at = np.argwhere(arrays["terminated"])[0]
    # Truncate the episode there, with a next observation like the first.
    arrays["truncated"], arrays["terminated"] = arrays["terminated"], arrays["truncated"]
    arrays["final_obs"] = np.repeat(arrays["obs"][:1, 0], len(arrays["final_obs"]), axis=0)

    target = learner._learned(arrays, read(arrays)).targets[tuple(at)]

    n, t = at
    with torch.no_grad():
        fragments = {name: x[n : n + 1] for name, x in read(arrays).items()}
        longer = torch.cat([fragments["obs"][:, : t + 1], fragments["obs"][:, :1]], dim=1)
        first = torch.nn.functional.pad(fragments["first"][:, : t + 1], (0, 1))
        value = policy(longer, fragments["hidden"], first)[1][0, -1]
    assert target == pytest.approx(float(arrays["reward"][n, t] + value), abs=1e-4)


def test_gradients_reach_earlier_steps_of_the_same_episode_only() -> None:
    policy = fresh_policy("gru")
    obs = torch.randn(1, 8, INPUTS, requires_grad=True)
    first = torch.zeros(1, 8, dtype=torch.bool)
    first[0, 3] = True

    _, values, _ = policy(obs, torch.zeros(1, UNITS), first)
    values[0, 7].backward()

    influence = obs.grad.abs().sum(-1)[0]
    assert (influence[3:] > 0).all()
    assert (influence[:3] == 0).all()


def test_padding_has_no_gradient() -> None:
    arrays = stacked(rolled_out(fresh_policy("gru"), "gru", times=1)[0])
    arrays["mask"][:2, 7:] = False
    spoilt = {name: array.copy() for name, array in arrays.items()}
    spoilt["obs"][:2, 7:] = spoilt["reward"][:2, 7:] = 100

    def weights_after(shown: dict[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
        policy = fresh_policy("gru")
        fields = {name: x for name, x in shown.items() if not name.startswith("final")}
        none = np.zeros(0, np.int64)
        fields |= {"final_obs": arrays["final_obs"][:0], "final_step": none, "final_fragment": none}
        Learner(policy, PpoSettings(), seed=3).learn(fields)
        return dict(policy.state_dict())

    torch.testing.assert_close(weights_after(arrays), weights_after(spoilt))


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_the_trainer_publishes_then_trains_until_the_run_ends(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [fragment for some in rolled_out(fresh_policy(kind), kind, times=2) for fragment in some]
    run = ServedRun(config_of(kind), make_fragment=lambda number: made[number])

    with serving(run) as server:
        monkeypatch.setattr("sys.argv", ["ppo", "--url", server.url, "--run", "demo"])
        main()

    assert [manifest["step"] for manifest in run.published] == [0, 1, 2, 3]
    assert run.acked == [1, 1, 1]
    assert capsys.readouterr().out.count("version") == 3


def test_an_unsupported_policy_is_refused_with_its_name() -> None:
    config = run_config.to_builtins(config_of("gru"))
    config["policy"]["kind"] = "cnn"

    with pytest.raises(ValueError, match="cnn is neither gru nor mlp"):
        policy_for(config)
