"""An evaluation of a step policy ends its episodes, or fails with a reason."""

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import Policy, WeightsDoNotFit
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.steps.evaluation_round import EvaluationFailed, EvaluationRound, Weights

MakeSettings = Callable[..., FleetSettings]


def weights(units: int = 8) -> Weights:
    import torch

    torch.manual_seed(3)
    state = MlpPolicy(4, 2, [units]).state_dict()
    return Weights(7, {name: value.numpy() for name, value in state.items()})


def make_round(
    settings: FleetSettings, *, at: Weights | None = None, **options: Any
) -> EvaluationRound:
    config = settings.config

    def policy(observation: Space, action: Space) -> Policy:
        made = make_policy(config.policy, observation, action, seed=5, device="cpu")
        made.is_deterministic = config.evaluation.deterministic
        return made

    return EvaluationRound(config, at or weights(), make_policy=policy, **options)


def test_episodes_of_a_real_environment_are_complete(make_settings: MakeSettings) -> None:
    settings = make_settings(evaluation={"episodes": 7, "envs": 3})

    episodes = make_round(settings).run()

    assert len(episodes) == 7
    assert {(each.mode, each.policy_step, each.environment) for each in episodes} == {
        ("eval", 7, "gymnasium:CartPole-v1")
    }
    # CartPole's return is its length; without a trained policy the pole falls.
    assert all(each.total_return == each.length > 5 for each in episodes)
    assert {each.outcome for each in episodes} <= {"terminated", "truncated"}


def test_rounds_repeat_with_deterministic_actions(make_settings: MakeSettings) -> None:
    settings = make_settings(evaluation={"episodes": 6, "envs": 3})

    one, other = make_round(settings).run(), make_round(settings).run()

    assert one == other
    assert len({each.length for each in one}) > 1


def test_slow_rows_end_their_share_of_the_episodes(make_settings: MakeSettings) -> None:
    settings = make_settings(spec="uneven:any", evaluation={"episodes": 6, "envs": 2})

    episodes = make_round(settings).run()

    assert sorted(each.length for each in episodes) == [3, 3, 3, 30, 30, 30]


@pytest.mark.parametrize(
    ("spec", "kwargs", "reason"),
    [
        ("odd:counting", {"raises_at": 4}, "raised RuntimeError: broken at step 4"),
        ("odd:deadly", {}, "exit code 3"),
        ("gymnasium:Missing-v0", {}, "Missing"),
    ],
)
def test_a_failed_evaluation_has_a_reason(
    make_settings: MakeSettings, spec: str, kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(EvaluationFailed, match=reason):
        make_round(make_settings(spec=spec, kwargs=kwargs)).run()


def test_the_time_of_an_evaluation_is_limited(make_settings: MakeSettings) -> None:
    endless = {"spec": "odd:counting", "kwargs": {"length": 10**9}}
    settings = make_settings(**endless, evaluation={"timeout_seconds": 2.0})

    with pytest.raises(EvaluationFailed, match="0 of 20 episodes ended within 2 s"):
        make_round(settings).run()


def test_weights_of_another_shape_are_refused(make_settings: MakeSettings) -> None:
    with pytest.raises(WeightsDoNotFit, match="names or shapes differ"):
        make_round(make_settings(), at=weights(units=16)).run()


def test_a_stopped_round_has_no_result(make_settings: MakeSettings) -> None:
    with pytest.raises(EvaluationFailed, match="stopped"):
        make_round(make_settings(), is_stopped=lambda: True).run()
