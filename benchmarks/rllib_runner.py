"""Sample CartPole-v1 with RLlib's EnvRunner; runs in RLlib's own environment.

`python rllib_runner.py ENVS`: a SingleAgentEnvRunner as PPO makes it, with the fleet's network
(two tanh layers of 64 units for each of policy and value). It computes actions and their
log-probabilities; values, which the fleet computes too, RLlib leaves to its learner. Episodes
stay in this process: Ray would still have to carry them to one.
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
    """Sample for as long as each line of standard input says."""
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
