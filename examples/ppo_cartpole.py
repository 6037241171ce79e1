"""Train a policy with PPO on the batches of a Rolldeck run.

    python examples/ppo_cartpole.py --url http://127.0.0.1:8000 --run demo --token rd_…

All communication uses the `rolldeck` client: register, publish version 0, then for every batch
learn, publish the next version and log metrics. After a crash, restart it with --resume: it gets
its unacknowledged batch again and continues from the last published weights.

The samples come from earlier versions of the policy. The loss uses the log probabilities stored
when the fleet acted, and `--advantages vtrace` (the default) also corrects the advantages for
them; `--advantages gae` treats the steps as on-policy.

Source of the algorithm: PPO, Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9; GAE and
V-trace as in `rolldeck.training.returns`.
"""

import argparse
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rolldeck.trainer import Batch, Trainer
from rolldeck.training.returns import TrainingTargets, Transitions, gae, transitions, vtrace
from rollouts.fleet.environments.run_spaces import spaces_of

Floats = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings:
    """Hyperparameters of the update step."""

    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-4
    annealing_env_steps: int = 122_880
    """Env steps over which the learning rate falls linearly to its final value."""
    epochs: int = 8
    minibatch_size: int = 256
    gamma: float = 0.98
    lam: float = 0.95
    advantages: Literal["gae", "vtrace"] = "vtrace"
    """GAE assumes data of the present policy, V-trace corrects for an older one."""
    clip: float = 0.2
    entropy_coefficient: float = 0.0
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5
    reward_scale: float = 1.0
    """Factor of every reward; the values that are learned have the scaled unit."""


def tanh_mlp(sizes: list[int], outputs: int, gain: float) -> nn.Sequential:
    """Return a tanh MLP with orthogonal weights; `gain` scales its last layer."""
    layers: list[nn.Module] = []
    for index, (inputs, units) in enumerate(zip(sizes, [*sizes[1:], outputs], strict=True)):
        is_last = index == len(sizes) - 1
        linear = nn.Linear(inputs, units)
        nn.init.orthogonal_(linear.weight, gain if is_last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)


class MlpPolicy(nn.Module):
    """Separate policy and value towers, with the parameter names of the fleet's `mlp` policy."""

    def __init__(self, observation_size: int, actions: int, hidden_sizes: list[int]) -> None:
        super().__init__()
        self.policy_net = tanh_mlp([observation_size, *hidden_sizes], actions, 0.01)
        self.value_net = tanh_mlp([observation_size, *hidden_sizes], 1, 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalized logits ``[…, actions]`` and values ``[…]`` for obs ``[…, size]``."""
        logits = torch.log_softmax(self.policy_net(obs), dim=-1)
        return logits, self.value_net(obs).squeeze(-1)


class Learner:
    """Learner that updates a policy from stacked fragments."""

    def __init__(self, policy: MlpPolicy, settings: PpoSettings, seed: int) -> None:
        self.policy = policy
        self.settings = settings
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate, eps=1e-5)
        self._random = torch.Generator().manual_seed(seed)
        self._device = next(policy.parameters()).device

    def weights(self) -> dict[str, Tensor]:
        """Return the weights to publish."""
        return dict(self.policy.state_dict())

    def learn(self, arrays: Arrays, train_step: int) -> dict[str, float]:
        """Update the policy from the arrays of `Batch.stack`; return metrics."""
        s = self.settings
        steps = self._steps({**arrays, "reward": arrays["reward"] * np.float32(s.reward_scale)})
        done = min(1.0, train_step * int(steps.mask.sum()) / s.annealing_env_steps)
        rate = s.learning_rate + done * (s.final_learning_rate - s.learning_rate)
        self.optimizer.param_groups[0]["lr"] = rate
        learned = self._learned(arrays, steps)
        real = torch.from_numpy(steps.mask.ravel())
        flat = {
            "obs": torch.from_numpy(arrays["obs"]).flatten(0, 1).float()[real],
            "action": torch.from_numpy(arrays["action"]).flatten().long()[real],
            "behavior": torch.from_numpy(arrays["behavior_logprob"]).flatten()[real],
            "advantage": torch.from_numpy(learned.advantages).flatten()[real],
            "target": torch.from_numpy(learned.targets).flatten()[real],
        }
        flat = {name: column.to(self._device) for name, column in flat.items()}
        rows: list[dict[str, float]] = []
        for _ in range(s.epochs):
            order = torch.randperm(len(flat["obs"]), generator=self._random)
            minibatches = order.split(s.minibatch_size)
            rows += [self._update({name: x[at] for name, x in flat.items()}) for at in minibatches]
        metrics = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        metrics["kl"] = rows[-1]["kl"]
        metrics["explained_variance"] = explained_variance(steps.values, learned.targets)
        metrics["importance_weight"] = float(learned.weights[steps.mask].mean())
        metrics["learning_rate"] = rate
        return metrics

    @torch.no_grad()
    def _steps(self, arrays: Arrays) -> Transitions:
        """Return the steps with the present value function's estimates."""
        return transitions(
            arrays,
            values=self._value_of(arrays["obs"]),
            last_values=self._value_of(arrays["next_obs"]),
            final_values=self._value_of(arrays["final_obs"]),
        )

    def _learned(self, arrays: Arrays, steps: Transitions) -> TrainingTargets:
        s = self.settings
        if s.advantages == "gae":
            return gae(steps, gamma=s.gamma, lam=s.lam)
        log_ratio = self.logprobs(arrays) - arrays["behavior_logprob"]
        return vtrace(steps, log_ratio, gamma=s.gamma, lam=s.lam)

    @torch.no_grad()
    def logprobs(self, arrays: Arrays) -> Floats:
        """Return the present policy's log probabilities of the taken actions, ``[N, T]``."""
        logits, _ = self.policy(torch.from_numpy(arrays["obs"]).float().to(self._device))
        actions = torch.from_numpy(arrays["action"]).long().to(self._device)
        chosen: Floats = logits.gather(-1, actions[..., None]).squeeze(-1).cpu().numpy()
        return chosen

    def _value_of(self, obs: NDArray[Any]) -> Floats:
        values: Floats = (
            self.policy(torch.from_numpy(obs).float().to(self._device))[1].cpu().numpy()
        )
        return values

    def _update(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        s = self.settings
        logits, values = self.policy(rows["obs"])
        logprobs = logits.gather(1, rows["action"][:, None]).squeeze(1)
        log_ratio = logprobs - rows["behavior"]
        ratio = log_ratio.exp()
        gae = rows["advantage"]
        gae = (gae - gae.mean()) / (gae.std() + 1e-8)
        policy_loss = -torch.min(ratio * gae, ratio.clamp(1 - s.clip, 1 + s.clip) * gae).mean()
        value_loss = (values - rows["target"]).square().mean()
        entropy = -(logits.exp() * logits).sum(1).mean()
        loss = policy_loss + s.value_coefficient * value_loss - s.entropy_coefficient * entropy
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_gradient_norm)
        self.optimizer.step()
        return {
            "loss": loss.item(),
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "kl": (ratio - 1 - log_ratio).mean().item(),
        }


def explained_variance(values: Floats, targets: Floats) -> float:
    """Return the share of the targets' variance explained by the estimates; at most 1."""
    return 1 - float((targets - values).var()) / (float(targets.var()) + 1e-8)


def policy_for(config: Mapping[str, Any]) -> MlpPolicy:
    """Return a new policy for the environment of a run's configuration.

    Raises:
        ValueError: If this trainer does not support its spaces.
    """
    observation, action = spaces_of(config)
    if observation.kind != "box" or action.kind != "discrete":
        raise ValueError(
            "this trainer learns from one Box and for one Discrete action, not from "
            f"{observation} and for {action}"
        )
    return MlpPolicy(observation.size, action.choices, list(config["policy"]["hidden_sizes"]))


def train_on(batch: Batch, learner: Learner, step: int) -> dict[str, float]:
    """Train version `step` on `batch` and return its metrics."""
    arrays = batch.stack()
    metrics = learner.learn(arrays, step)
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


def argument_parser() -> argparse.ArgumentParser:
    """Return a parser of the arguments, with defaults from environment variables."""
    parser = argparse.ArgumentParser(description="Train the policy of a Rolldeck run with PPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--name", default="ppo", help="shown on the run's page")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    for one in fields(PpoSettings):
        choices = get_args(get_type_hints(PpoSettings)[one.name]) or None
        option = f"--{one.name.replace('_', '-')}"
        parser.add_argument(
            option,
            type=type(one.default),
            default=one.default,
            choices=choices,
            help="default %(default)s",
        )
    return parser


def settings_of(args: argparse.Namespace) -> PpoSettings:
    """Return the hyperparameters of the arguments."""
    return PpoSettings(**{one.name: getattr(args, one.name) for one in fields(PpoSettings)})


def main() -> None:
    """Train with the arguments of the command line."""
    args = argument_parser().parse_args()
    settings = settings_of(args)
    train(args, lambda policy, seed: Learner(policy, settings, seed))


def train(args: argparse.Namespace, make_learner: Callable[[MlpPolicy, int], Learner]) -> None:
    """Register, publish the initial weights, then learn from each batch."""
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with Trainer(args.url, args.run, args.token, name=args.name) as trainer:
        registration = trainer.register(resume=args.resume)
        config = registration.config
        torch.manual_seed(config["seed"])
        policy = policy_for(config).to(args.device)
        step = max(0, registration.policy_step)
        learner = make_learner(policy, config["seed"])
        if args.resume and registration.policy_step >= 0:
            _, tensors = trainer.current_weights()
            policy.load_state_dict({name: torch.tensor(x) for name, x in tensors.items()})
        else:
            trainer.publish_weights(learner.weights(), step=0)
        print(f"epoch {registration.epoch}, from version {step}", flush=True)
        for batch in trainer.batches():
            step += 1
            metrics = train_on(batch, learner, step)
            trainer.publish_weights(learner.weights(), step=step)
            trainer.log_metrics(metrics, step=step)
            shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
            print(f"version {step} from batch {batch.head.ordinal}: {shown}", flush=True)
            if step >= config["num_steps"]:
                trainer.ack(batch)
                return


if __name__ == "__main__":
    main()
