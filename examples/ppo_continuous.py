"""Train a policy for continuous actions with PPO on the batches of a Rolldeck run.

    python examples/ppo_continuous.py --url http://127.0.0.1:8000 --run pendulum --token rd_…

It differs from `ppo_cartpole.py` in two things:

Actions are drawn from a Gaussian. Fragments hold them as they were drawn, with their logprobs;
the fleet clips only what the environment gets. So the ratio of the loss is that of the
distribution that was sampled, whatever the bounds are.

Observations and values are normalised, which a network needs when angles lie in [−1, 1] and
returns at −1,000. The fleet knows nothing of it: running means and spreads are folded into the
first and the last layer of what is published, and unfolded when a trainer resumes.

Sources: PPO, Schulman et al. 2017, arXiv:1707.06347, equation 7; V-trace as in
`rolldeck.returns`; changing the scale of values without changing them, van Hasselt et al. 2016,
arXiv:1602.07714, equations 9 and 10.
"""

import argparse
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rolldeck.returns import Learned, transitions, vtrace
from rolldeck.trainer import Batch, Trainer

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings:
    """What the update step can be tuned by."""

    learning_rate: float = 1e-3
    epochs: int = 10
    minibatch_size: int = 256
    gamma: float = 0.9
    lam: float = 0.95
    clip: float = 0.2
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5


def tower(sizes: list[int], gain: float) -> nn.Sequential:
    """Return a tanh MLP with orthogonal weights; `gain` scales its last layer."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        linear = nn.Linear(inputs, units)
        nn.init.orthogonal_(linear.weight, 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    with torch.no_grad():
        linear.weight *= gain / 2**0.5
    return nn.Sequential(*layers[:-1])


class Scale:
    """Running mean and spread of rows ``[…, size]`` (Chan et al. 1979, parallel variance)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = torch.zeros(size)
        self.variance = torch.ones(size)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, not less than what rounding leaves."""
        return self.variance.sqrt().clamp(min=1e-4)

    def add(self, rows: Tensor) -> None:
        """Take further ``rows [B, size]`` into account."""
        total = self.count + len(rows)
        difference = rows.mean(0) - self.mean
        within = self.count * self.variance + len(rows) * rows.var(0, correction=0)
        between = difference.square() * self.count * len(rows) / total
        self.mean = self.mean + difference * len(rows) / total
        self.variance = (within + between) / total
        self.count = total


class GaussianPolicy(nn.Module):
    """Separate policy and value towers that see and give normalised numbers."""

    def __init__(self, observation_size: int, action_size: int, hidden_sizes: list[int]) -> None:
        super().__init__()
        self.policy_net = tower([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tower([observation_size, *hidden_sizes, 1], 1.0)
        self.log_std = nn.Parameter(torch.zeros(action_size))
        self.obs_scale = Scale(observation_size)
        self.value_scale = Scale(1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means ``[…, actions]`` and normalised values ``[…]`` for raw obs ``[…, size]``."""
        seen = (obs - self.obs_scale.mean) / self.obs_scale.spread
        return self.policy_net(seen), self.value_net(seen).squeeze(-1)

    def logprob(self, means: Tensor, actions: Tensor) -> Tensor:
        """Return the log density ``[…]`` of ``actions […, actions]``."""
        noise = (actions - means) * torch.exp(-self.log_std)
        return -(0.5 * (noise.square() + math.log(2 * math.pi)) + self.log_std).sum(-1)

    @torch.no_grad()
    def folded(self) -> dict[str, Tensor]:
        """Return the weights of the same network for raw observations and raw values.

        They have the names and shapes of the fleet's `mlp` policy.
        """
        weights = {name: value.clone() for name, value in self.state_dict().items()}
        for name in ("policy_net.0", "value_net.0"):
            weights[f"{name}.weight"] /= self.obs_scale.spread
            weights[f"{name}.bias"] -= weights[f"{name}.weight"] @ self.obs_scale.mean
        last = f"value_net.{len(self.value_net) - 1}"
        for part in ("weight", "bias"):
            weights[f"{last}.{part}"] *= self.value_scale.spread
        weights[f"{last}.bias"] += self.value_scale.mean
        return weights

    @torch.no_grad()
    def unfold(self, weights: Mapping[str, Tensor]) -> None:
        """Take weights for raw numbers, by the present scales: the inverse of `folded`."""
        inner = {name: value.clone() for name, value in weights.items()}
        for name in ("policy_net.0", "value_net.0"):
            inner[f"{name}.bias"] += inner[f"{name}.weight"] @ self.obs_scale.mean
            inner[f"{name}.weight"] *= self.obs_scale.spread
        last = f"value_net.{len(self.value_net) - 1}"
        inner[f"{last}.bias"] -= self.value_scale.mean
        for part in ("weight", "bias"):
            inner[f"{last}.{part}"] /= self.value_scale.spread
        self.load_state_dict(inner)


class Learner:
    """Updates a policy from stacked fragments."""

    def __init__(self, policy: GaussianPolicy, settings: PpoSettings, seed: int) -> None:
        self.policy = policy
        self.settings = settings
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate, eps=1e-5)
        self._random = torch.Generator().manual_seed(seed)

    def learn(self, arrays: Arrays) -> dict[str, float]:
        """Update the policy from arrays as `Batch.stack` gives them; return metrics."""
        real = torch.from_numpy(arrays["mask"].ravel())
        obs = vectors(arrays["obs"], 2).flatten(0, 1)
        self._rescale(self.policy.obs_scale, obs[real])
        learned = self._learned(arrays)
        targets = torch.from_numpy(learned.targets).flatten()
        self._rescale(self.policy.value_scale, targets[real][:, None])
        columns = {
            "obs": obs,
            "action": vectors(arrays["action"], 2).flatten(0, 1),
            "behavior": torch.from_numpy(arrays["behavior_logprob"]).flatten(),
            "advantage": torch.from_numpy(learned.advantages).flatten(),
            "target": (targets - self.policy.value_scale.mean) / self.policy.value_scale.spread,
        }
        rows = [
            self._update(minibatch)
            for minibatch in self._minibatches({name: x[real] for name, x in columns.items()})
        ]
        metrics = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        spread = float(self.policy.log_std.detach().exp().mean())
        weight = float(learned.weights[arrays["mask"]].mean())
        return metrics | {"kl": rows[-1]["kl"], "spread": spread, "importance_weight": weight}

    def _rescale(self, scale: Scale, rows: Tensor) -> None:
        """Let a scale follow what was seen, without a change of any raw output."""
        weights = self.policy.folded()
        scale.add(rows)
        self.policy.unfold(weights)

    @torch.no_grad()
    def _learned(self, arrays: Arrays) -> Learned:
        means, values = self._judged(vectors(arrays["obs"], 2))
        steps = transitions(
            arrays,
            values=values,
            last_values=self._judged(vectors(arrays["next_obs"], 1))[1],
            final_values=self._judged(vectors(arrays["final_obs"], 1))[1],
        )
        logprobs = self.policy.logprob(means, vectors(arrays["action"], 2)).numpy()
        log_ratio = logprobs - arrays["behavior_logprob"]
        return vtrace(steps, log_ratio, gamma=self.settings.gamma, lam=self.settings.lam)

    def _judged(self, obs: Tensor) -> tuple[Tensor, NDArray[np.float32]]:
        """Return means ``[…, actions]`` and raw values ``[…]`` for ``obs […, size]``."""
        means, values = self.policy(obs)
        scale = self.policy.value_scale
        return means, (values * scale.spread + scale.mean).numpy()

    def _minibatches(self, columns: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(columns["obs"]), generator=self._random)
            for rows in order.split(self.settings.minibatch_size):
                yield {name: column[rows] for name, column in columns.items()}

    def _update(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        s = self.settings
        means, values = self.policy(rows["obs"])
        log_ratio = self.policy.logprob(means, rows["action"]) - rows["behavior"]
        ratio = log_ratio.exp()
        advantage = rows["advantage"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clamp(1 - s.clip, 1 + s.clip)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        value_loss = (values - rows["target"]).square().mean()
        loss = policy_loss + s.value_coefficient * value_loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_gradient_norm)
        self.optimizer.step()
        return {
            "loss": loss.item(),
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "kl": (ratio - 1 - log_ratio).mean().item(),
        }


def vectors(array: NDArray[Any], axes: int) -> Tensor:
    """Return `array` as float32 with everything behind its first `axes` axes in one."""
    return torch.from_numpy(array).float().flatten(axes)


def policy_for(config: Mapping[str, Any]) -> GaussianPolicy:
    """Return a fresh policy for the environment that a run's configuration names."""
    spec = str(config["environment"]["spec"]).removeprefix("gymnasium:")
    env = gymnasium.make(spec, **config["environment"]["kwargs"])
    observation_size, action_size = (
        int(np.prod(space.shape)) for space in (env.observation_space, env.action_space)
    )
    env.close()
    return GaussianPolicy(observation_size, action_size, list(config["policy"]["hidden_sizes"]))


def train_on(batch: Batch, learner: Learner) -> dict[str, float]:
    """Make the next version out of `batch` and return what to log."""
    arrays = batch.stack()
    metrics = learner.learn(arrays)
    staleness = batch.head.policy_step - arrays["policy_step"]
    return metrics | {"staleness": float(staleness.mean()), "staleness_max": float(staleness.max())}


def parse_args() -> argparse.Namespace:
    """Return the arguments, the environment filling in what was not given."""
    parser = argparse.ArgumentParser(description="Train a Gaussian policy with PPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--name", default="ppo", help="shown on the run's page")
    parser.add_argument("--resume", action="store_true", help="go on from the published weights")
    return parser.parse_args()


def main() -> None:
    """Register, publish what training starts with, then learn from batch after batch."""
    args = parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with Trainer(args.url, args.run, args.token, name=args.name) as trainer:
        registration = trainer.register(resume=args.resume)
        config = registration.config
        torch.manual_seed(config["seed"])
        policy = policy_for(config)
        step = max(0, registration.policy_step)
        if args.resume and registration.policy_step >= 0:
            _, tensors = trainer.current_weights()
            policy.unfold({name: torch.tensor(x) for name, x in tensors.items()})
        else:
            trainer.publish_weights(policy.folded(), step=0)
        learner = Learner(policy, PpoSettings(), seed=config["seed"])
        for batch in trainer.batches():
            step += 1
            metrics = train_on(batch, learner)
            trainer.publish_weights(policy.folded(), step=step)
            trainer.log_metrics(metrics, step=step)
            shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
            print(f"version {step} from batch {batch.head.ordinal}: {shown}", flush=True)
            if step >= config["num_steps"]:
                trainer.ack(batch)
                return


if __name__ == "__main__":
    main()
