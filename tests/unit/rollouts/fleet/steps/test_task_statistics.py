"""Episodes that name their task have statistics per task, train and eval apart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import odd_environments  # noqa: F401 registers them

from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.steps.env_block import anonymous_memory
from rollouts.fleet.steps.env_messages import InfoReport, Setup
from rollouts.fleet.steps.env_rows import EnvRows
from rollouts.fleet.steps.evaluation_round import EvaluationRound, Weights


def test_return_and_length_are_added_to_the_task_of_an_episode() -> None:
    messages: list[Any] = []
    setup = Setup(spec="odd:tasks", kwargs={}, seeds=[0], is_info_immediate=True)
    rows = EnvRows(setup, emit=messages.append, memory=anonymous_memory())
    rows.build(0, 1)
    for _ in range(2 + 3 + 2):
        rows.step(np.array([0]))
    rows.close()

    sums: dict[str, list[tuple[int, float]]] = {}
    for message in messages:
        if isinstance(message, InfoReport):
            for one in message.window.sums:
                assert one.scope == "episode"
                sums.setdefault(one.name, []).append((one.count, one.total))
    assert sums == {
        "task/push/return": [(1, 2.0), (1, 2.0)],
        "task/push/length": [(1, 2.0), (1, 2.0)],
        "task/lift/return": [(1, 3.0)],
        "task/lift/length": [(1, 3.0)],
    }


def test_tasks_of_an_evaluation_have_separate_names(
    make_settings: Callable[..., FleetSettings],
) -> None:
    config = make_settings(spec="odd:tasks", evaluation={"episodes": 5, "envs": 1}).config
    tensors = {name: value.numpy() for name, value in MlpPolicy(4, 2, [8]).state_dict().items()}

    def policy(observation: Space, action: Space) -> Policy:
        return make_policy(config.policy, observation, action, seed=5, device="cpu")

    evaluation = EvaluationRound(config, Weights(0, tensors), make_policy=policy)
    evaluation.run()

    found = {one.name: (one.count, one.total) for one in evaluation.info.pop().sums}
    assert found == {
        "eval/task/push/return": (3, 6.0),
        "eval/task/push/length": (3, 6.0),
        "eval/task/lift/return": (2, 6.0),
        "eval/task/lift/length": (2, 6.0),
    }
