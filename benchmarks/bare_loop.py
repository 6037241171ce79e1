"""Baseline: step Gymnasium's vector environments with the fleet's policy and nothing else.

`python -m benchmarks.bare_loop ENVS MODE` with one of Gymnasium's modes: `sync` steps environments
one after the other, `vector_entry_point` is CartPole's own in numpy. Nothing is stored or sent.
"""

import sys
import time

import gymnasium
import numpy as np

from benchmarks.paced import serve
from rollouts.fleet.environments import loader as environments
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from runs.config.rules.sections import PolicyConfig

ENVIRONMENT = "CartPole-v1"


def main() -> None:
    """Run the loop for the seconds given on each line of standard input."""
    count, mode = int(sys.argv[1]), sys.argv[2]
    spaces = environments.describe(gymnasium.make(ENVIRONMENT))
    policy = make_policy(PolicyConfig(), *spaces, seed=0, device="cpu")
    # Any weights will do; a policy without weights cannot act.
    weights = MlpPolicy(4, 2, PolicyConfig().hidden_sizes).state_dict()
    policy.load({name: value.numpy() for name, value in weights.items()})
    vector = gymnasium.make_vec(ENVIRONMENT, num_envs=count, vectorization_mode=mode)
    obs, _ = vector.reset(seed=0)
    state = policy.initial_state(count)

    def loop(seconds: float) -> int:
        nonlocal obs, state
        steps, ended = 0, np.zeros(count, dtype=np.bool_)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            decision = policy.act(obs, state, ended)
            obs, _, terminated, truncated, _ = vector.step(decision.actions)
            ended, state = terminated | truncated, decision.state
            steps += count
        return steps

    serve(loop)


if __name__ == "__main__":
    main()
