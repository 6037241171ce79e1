"""Train a policy for continuous actions with PPO on the batches of a Rolldeck run.

    python examples/ppo_continuous.py --url http://127.0.0.1:8000 --run pendulum --token rd_…

It differs from `ppo_cartpole.py` in two ways:

Actions are sampled from a Gaussian. Fragments hold the unclipped samples with their log
probabilities; the fleet clips only the environment's input. So the ratio of the loss is that of
the sampled distribution, independent of the bounds.

Observations and values are normalized, which a network needs when angles are in [−1, 1] and
returns near −1,000. The fleet is not aware of it: running means and standard deviations are folded
into the first and the last layer of the published weights, and unfolded when a trainer resumes.

Sources: PPO, Schulman et al. 2017, arXiv:1707.06347, equation 7; V-trace as in
`rolldeck.training.returns`; changing the scale of values without changing them, van Hasselt et al.
2016, arXiv:1602.07714, equations 9 and 10.
"""

import argparse
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rolldeck.trainer import Batch, Trainer
from rolldeck.training.returns import TrainingTargets, transitions, vtrace
from rollouts.fleet.environments.run_spaces import spaces_of

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings:
    """Hyperparameters of the update step."""

    learning_rate: float = 1e-3
    epochs: int = 10
    minibatch_size: int = 256
    gamma: float = 0.9
    lam: float = 0.95
    clip: float = 0.2
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5


def tanh_mlp(sizes: list[int], gain: float) -> nn.Sequential:
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
    """Running mean and deviation of rows ``[…, size]`` (Chan et al. 1979, parallel variance)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean = torch.zeros(size)
        self.variance = torch.ones(size)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, with a lower bound against rounding errors."""
        return self.variance.sqrt().clamp(min=1e-4)

    def add(self, rows: Tensor) -> None:
        """Update the statistics with ``rows [B, size]``."""
        total = self.count + len(rows)
        difference = rows.mean(0) - self.mean
        within = self.count * self.variance + len(rows) * rows.var(0, correction=0)
        between = difference.square() * self.count * len(rows) / total
        self.mean = self.mean + difference * len(rows) / total
        self.variance = (within + between) / total
        self.count = total


class GaussianPolicy(nn.Module):
    """Separate policy and value towers with normalized inputs and values."""

    def __init__(self, observation_size: int, action_size: int, hidden_sizes: list[int]) -> None:
        super().__init__()
        self.policy_net = tanh_mlp([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tanh_mlp([observation_size, *hidden_sizes, 1], 1.0)
        self.log_std = nn.Parameter(torch.zeros(action_size))
        self.obs_scale = Scale(observation_size)
        self.value_scale = Scale(1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means ``[…, actions]`` and normalized values ``[…]`` for raw obs ``[…, size]``."""
        seen = (obs - self.obs_scale.mean) / self.obs_scale.spread
        return self.policy_net(seen), self.value_net(seen).squeeze(-1)

    def logprob(self, means: Tensor, actions: Tensor) -> Tensor:
        """Return the log density ``[…]`` of ``actions […, actions]``."""
        noise = (actions - means) * torch.exp(-self.log_std)
        return -(0.5 * (noise.square() + math.log(2 * math.pi)) + self.log_std).sum(-1)

    def move_to(self, device: torch.device) -> None:
        """Move the weights and the statistics to a device."""
        self.to(device)
        for scale in (self.obs_scale, self.value_scale):
            scale.mean, scale.variance = scale.mean.to(device), scale.variance.to(device)

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
        """Load weights for raw numbers, by the present scales: the inverse of `folded`."""
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
    """Learner that updates a policy from stacked fragments."""

    def __init__(self, policy: GaussianPolicy, settings: PpoSettings, seed: int) -> None:
        self.policy = policy
        self.settings = settings
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate, eps=1e-5)
        self._random = torch.Generator().manual_seed(seed)
        self._device = policy.log_std.device

    def learn(self, arrays: Arrays) -> dict[str, float]:
        """Update the policy from the arrays of `Batch.stack`; return metrics."""
        real = torch.from_numpy(arrays["mask"].ravel()).to(self._device)
        obs = self._vectors(arrays["obs"], 2).flatten(0, 1)
        self._rescale(self.policy.obs_scale, obs[real])
        learned = self._learned(arrays)
        targets = torch.from_numpy(learned.targets).flatten().to(self._device)
        self._rescale(self.policy.value_scale, targets[real][:, None])
        columns = {
            "obs": obs,
            "action": self._vectors(arrays["action"], 2).flatten(0, 1),
            "behavior": torch.from_numpy(arrays["behavior_logprob"]).flatten().to(self._device),
            "advantage": torch.from_numpy(learned.advantages).flatten().to(self._device),
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
        """Update a scale with new rows, without changing any raw output."""
        weights = self.policy.folded()
        scale.add(rows)
        self.policy.unfold(weights)

    @torch.no_grad()
    def _learned(self, arrays: Arrays) -> TrainingTargets:
        means, values = self._judged(self._vectors(arrays["obs"], 2))
        steps = transitions(
            arrays,
            values=values,
            last_values=self._judged(self._vectors(arrays["next_obs"], 1))[1],
            final_values=self._judged(self._vectors(arrays["final_obs"], 1))[1],
        )
        logprobs = self.policy.logprob(means, self._vectors(arrays["action"], 2))
        log_ratio = logprobs.cpu().numpy() - arrays["behavior_logprob"]
        return vtrace(steps, log_ratio, gamma=self.settings.gamma, lam=self.settings.lam)

    def _judged(self, obs: Tensor) -> tuple[Tensor, NDArray[np.float32]]:
        """Return means ``[…, actions]`` and raw values ``[…]`` for ``obs […, size]``."""
        means, values = self.policy(obs)
        scale = self.policy.value_scale
        return means, (values * scale.spread + scale.mean).cpu().numpy()

    def _vectors(self, array: NDArray[Any], axes: int) -> Tensor:
        return vectors(array, axes).to(self._device)

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
    """Convert `array` to float32, with all axes after the first `axes` flattened into one."""
    return torch.from_numpy(array).float().flatten(axes)


def policy_for(config: Mapping[str, Any]) -> GaussianPolicy:
    """Return a new policy for the environment of a run's configuration.

    Raises:
        ValueError: If this trainer does not support its spaces.
    """
    observation, action = spaces_of(config)
    if observation.kind != "box" or action.kind != "box":
        raise ValueError(
            "this trainer learns from one Box and for continuous actions, not from "
            f"{observation} and for {action}"
        )
    return GaussianPolicy(observation.size, action.size, list(config["policy"]["hidden_sizes"]))


def train_on(batch: Batch, learner: Learner) -> dict[str, float]:
    """Train the next version on `batch` and return its metrics."""
    arrays = batch.stack()
    metrics = learner.learn(arrays)
    staleness = batch.head.policy_step - arrays["policy_step"]
    return metrics | {"staleness": float(staleness.mean()), "staleness_max": float(staleness.max())}


def device(name: str) -> torch.device:
    """Return the device of a name, such as cpu, cuda or cuda:1.

    Raises:
        argparse.ArgumentTypeError: If this machine lacks it.
    """
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise argparse.ArgumentTypeError(f"{name} cannot be used: {reason}") from error


def parse_args() -> argparse.Namespace:
    """Return the arguments, with defaults from environment variables."""
    parser = argparse.ArgumentParser(description="Train a Gaussian policy with PPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--name", default="ppo", help="shown on the run's page")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    for one in fields(PpoSettings):
        option = f"--{one.name.replace('_', '-')}"
        parser.add_argument(
            option, type=type(one.default), default=one.default, help="default %(default)s"
        )
    return parser.parse_args()


def settings_of(args: argparse.Namespace) -> PpoSettings:
    """Return the hyperparameters of the arguments."""
    return PpoSettings(**{one.name: getattr(args, one.name) for one in fields(PpoSettings)})


def main() -> None:
    """Register, publish the initial weights, then learn from each batch."""
    args = parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with Trainer(args.url, args.run, args.token, name=args.name) as trainer:
        registration = trainer.register(resume=args.resume)
        config = registration.config
        torch.manual_seed(config["seed"])
        policy = policy_for(config)
        policy.move_to(args.device)
        step = max(0, registration.policy_step)
        if args.resume and registration.policy_step >= 0:
            _, tensors = trainer.current_weights()
            policy.unfold({name: torch.tensor(x).to(args.device) for name, x in tensors.items()})
        else:
            trainer.publish_weights(policy.folded(), step=0)
        learner = Learner(policy, settings_of(args), seed=config["seed"])
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
