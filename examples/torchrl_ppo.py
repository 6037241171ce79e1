"""Train the policy of a step run with torchrl's PPO.

    python examples/torchrl_ppo.py --url http://127.0.0.1:8000 --run demo --token rd_…

The fleet of the run acts; torchrl's `GAE` and `ClipPPOLoss` learn from its fragments. After a
crash, restart it with --resume: it gets its unacknowledged batch again and continues from the
weights that were published last.

Source of the algorithm: PPO, Schulman et al. 2017, arXiv:1707.06347.
"""

import argparse
import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from rolldeck.integrations.torchrl import RunCollector
from rolldeck.trainer import Trainer
from rollouts.fleet.environments.run_spaces import spaces_of

EPOCHS, MINIBATCH = 8, 256
GAMMA, LAMBDA, CLIP = 0.98, 0.95, 0.2
FIRST_RATE, LAST_RATE, ANNEALED_ENV_STEPS = 1e-3, 1e-4, 122_880


def tanh_mlp(sizes: list[int], outputs: int, gain: float) -> nn.Sequential:
    """Return a tanh MLP with orthogonal weights; `gain` scales its last layer."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [_linear(inputs, units, 2**0.5), nn.Tanh()]
    return nn.Sequential(*layers, _linear(sizes[-1], outputs, gain))


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


def policy_for(config: Mapping[str, Any]) -> nn.ModuleDict:
    """Return both towers, with the parameter names of the fleet's `mlp` policy."""
    observation, action = spaces_of(config)
    sizes = [observation.size, *config["policy"]["hidden_sizes"]]
    return nn.ModuleDict(
        {"policy_net": tanh_mlp(sizes, action.choices, 0.01), "value_net": tanh_mlp(sizes, 1, 1.0)}
    )


class Learner:
    """Torchrl's PPO for a policy with two towers."""

    def __init__(self, policy: nn.ModuleDict) -> None:
        logits = TensorDictModule(policy["policy_net"], ["observation"], ["logits"])
        actor = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=Categorical)
        critic = ValueOperator(policy["value_net"], in_keys=["observation"])
        self._gae = GAE(gamma=GAMMA, lmbda=LAMBDA, value_network=critic)
        self._loss = ClipPPOLoss(
            actor,
            critic,
            clip_epsilon=CLIP,
            entropy_bonus=False,
            critic_coeff=0.5,
            loss_critic_type="l2",
            normalize_advantage=True,
        )
        self._optimizer = torch.optim.Adam(self._loss.parameters(), lr=FIRST_RATE, eps=1e-5)

    def learn(self, data: TensorDict, step: int) -> dict[str, float]:
        """Update the policy from a batch ``[N, T]``; return the last losses."""
        is_real = data["collector", "mask"]
        done = min(1.0, step * int(is_real.sum()) / ANNEALED_ENV_STEPS)
        self._optimizer.param_groups[0]["lr"] = FIRST_RATE + done * (LAST_RATE - FIRST_RATE)
        with torch.no_grad():
            data = self._gae(data)
        steps = data[is_real]
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(steps)).split(MINIBATCH):
                losses = self._loss(steps[rows])
                loss = losses["loss_objective"] + losses["loss_critic"]
                self._optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self._loss.parameters(), 0.5)
                self._optimizer.step()
        return {
            "policy_loss": losses["loss_objective"].item(),
            "value_loss": losses["loss_critic"].item(),
            "kl": losses["kl_approx"].item(),
        }


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Train the policy of a run with torchrl's PPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    args = parser.parse_args()
    torch.set_num_threads(1)
    trainer = Trainer(args.url, args.run, args.token, name="torchrl-ppo")
    collector = RunCollector(trainer, policy_for, resume=args.resume)
    learner = Learner(collector.policy)
    try:
        for data in collector:
            metrics = learner.learn(data, collector.policy_step + 1)
            collector.update_policy_weights_(collector.policy)
            collector.log_metrics(metrics)
            shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
            print(f"version {collector.policy_step}: {shown}", flush=True)
    finally:
        collector.shutdown()


if __name__ == "__main__":
    main()
