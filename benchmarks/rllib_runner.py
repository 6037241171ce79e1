"""Sample CartPole-v1 with RLlib's EnvRunner, in RLlib's own environment.

`python rllib_runner.py ENVS`: a SingleAgentEnvRunner as created by PPO, with the fleet's network
(two tanh layers of 64 units each for policy and value). It computes actions and log-probabilities;
values, which the fleet computes too, are left to RLlib's learner. Episodes stay in this process,
without Ray's cost of moving them.
"""

import sys
import time
from pathlib import Path

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paced import serve

STEPS_A_SAMPLE = 128


def main() -> None:
    """Sample for the seconds given on each line of standard input."""
    torch.set_num_threads(1)
    count = int(sys.argv[1])
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .framework("torch")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=count)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )
    runner = SingleAgentEnvRunner(config=config)
    runner.sample(num_timesteps=STEPS_A_SAMPLE * count, random_actions=False)

    def loop(seconds: float) -> int:
        steps, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            episodes = runner.sample(num_timesteps=STEPS_A_SAMPLE * count, random_actions=False)
            steps += sum(len(episode) for episode in episodes)
        return steps

    serve(loop)


if __name__ == "__main__":
    main()
