"""Train a recurrent policy with PPO on the batches of a Rolldeck run.

    python examples/ppo_recurrent.py --url http://127.0.0.1:8000 --run recall --token rd_…

It differs from `ppo_cartpole.py` in its rows: a row is a whole fragment, which the policy reads
from the first step to the last. It starts with the fleet's recurrent state at that point
(`in_state.hidden`), resets the state at the start of an episode (`first`), and gradients flow back
through every step of the fragment. Padded steps (`mask`) are ignored.

A run with an `mlp` policy is trained in the same way, without memory; the difference between their
returns is the benefit of the memory.

Sources: PPO, Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9; V-trace as in
`rolldeck.training.returns`; starting from stored states, Kapturowski et al. 2019 (R2D2), section 3.
"""

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
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

    learning_rate: float = 3e-3
    epochs: int = 4
    fragments_per_minibatch: int = 4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5


def linear(inputs: int, units: int, gain: float = 2**0.5) -> nn.Linear:
    """Return a layer with orthogonal weights."""
    layer = nn.Linear(inputs, units)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_layers(sizes: list[int]) -> list[nn.Module]:
    """Return dense layers, each followed by a tanh."""
    return [part for pair in pairwise(sizes) for part in (linear(*pair), nn.Tanh())]


class RecurrentPolicy(nn.Module):
    """A gated recurrent unit, with the parameter names of the fleet's `gru` policy."""

    def __init__(self, inputs: int, actions: int, hidden_sizes: list[int], units: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*tanh_layers([inputs, *hidden_sizes]))
        self.memory = nn.GRUCell(hidden_sizes[-1], units)
        self.policy_head = linear(units, actions, 0.01)
        self.value_head = linear(units, 1, 1.0)

    def forward(self, obs: Tensor, hidden: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read N fragments of T steps.

        Args:
            obs: ``[N, T, inputs]``.
            hidden: ``[N, units]``, the state before step 0.
            first: ``[N, T]``, the step begins an episode and resets the state.

        Returns:
            Normalized logits ``[N, T, actions]``, values ``[N, T]`` and the states after each
            step ``[N, T, units]``.
        """
        encoded, keep = self.encoder(obs), (~first).float()
        states = []
        for t in range(obs.shape[1]):
            hidden = self.memory(encoded[:, t], hidden * keep[:, t, None])
            states.append(hidden)
        remembered = torch.stack(states, dim=1)
        logits = torch.log_softmax(self.policy_head(remembered), dim=-1)
        return logits, self.value_head(remembered).squeeze(-1), remembered


class MlpPolicy(nn.Module):
    """Two towers without memory, with the parameter names of the fleet's `mlp` policy."""

    def __init__(self, inputs: int, actions: int, hidden_sizes: list[int]) -> None:
        super().__init__()
        sizes = [inputs, *hidden_sizes]
        self.policy_net = nn.Sequential(*tanh_layers(sizes), linear(sizes[-1], actions, 0.01))
        self.value_net = nn.Sequential(*tanh_layers(sizes), linear(sizes[-1], 1, 1.0))

    def forward(self, obs: Tensor, hidden: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Do as :meth:`RecurrentPolicy.forward`, with empty states ``[N, T, 0]``."""
        logits = torch.log_softmax(self.policy_net(obs), dim=-1)
        return logits, self.value_net(obs).squeeze(-1), hidden[:, None].expand(*first.shape, 0)


class Learner:
    """Learner that updates a policy from stacked fragments."""

    def __init__(self, policy: nn.Module, settings: PpoSettings, seed: int) -> None:
        self.policy = policy
        self.settings = settings
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate, eps=1e-5)
        self._random = torch.Generator().manual_seed(seed)
        self._device = next(policy.parameters()).device

    @staticmethod
    def arrays_of(batch: Batch) -> Arrays:
        """Return the arrays of a batch for :meth:`learn`."""
        return batch.stack()

    def learn(self, arrays: Arrays) -> dict[str, float]:
        """Update the policy from the arrays of `Batch.stack`; return metrics."""
        fragments = {name: column.to(self._device) for name, column in read(arrays).items()}
        learned = self._learned(arrays, fragments)
        advantage = torch.from_numpy(learned.advantages).to(self._device)
        real = advantage[fragments["mask"]]
        fragments["advantage"] = (advantage - real.mean()) / (real.std() + 1e-8)
        fragments["target"] = torch.from_numpy(learned.targets).to(self._device)
        rows = [self._update(minibatch) for minibatch in self._minibatches(fragments)]
        metrics = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        weight = float(learned.weights[arrays["mask"]].mean())
        return metrics | {"kl": rows[-1]["kl"], "importance_weight": weight}

    @torch.no_grad()
    def _learned(self, arrays: Arrays, fragments: Mapping[str, Tensor]) -> TrainingTargets:
        logits, values, states = self.policy(
            fragments["obs"], fragments["hidden"], fragments["first"]
        )
        ends = fragments["mask"].sum(dim=1) - 1
        final = arrays["final_fragment"], arrays["final_step"]
        steps = transitions(
            arrays,
            values=values.cpu().numpy(),
            last_values=self._value_after(arrays["next_obs"], states[range(len(ends)), ends]),
            final_values=self._value_after(arrays["final_obs"], states[final]),
        )
        log_ratio = (chosen(logits, fragments["action"]) - fragments["behavior"]).cpu().numpy()
        return vtrace(steps, log_ratio, gamma=self.settings.gamma, lam=self.settings.lam)

    def _value_after(self, obs: NDArray[Any], states: Tensor) -> NDArray[np.float32]:
        """Return values ``[B]`` of ``obs [B, …]`` that follow ``states [B, units]``."""
        going_on = torch.zeros(len(obs), 1, dtype=torch.bool, device=self._device)
        seen = torch.from_numpy(obs).float().flatten(1)[:, None].to(self._device)
        values: NDArray[np.float32] = self.policy(seen, states, going_on)[1][:, 0].cpu().numpy()
        return values

    def _minibatches(self, fragments: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(fragments["obs"]), generator=self._random)
            for rows in order.split(self.settings.fragments_per_minibatch):
                yield {name: x[rows] for name, x in fragments.items()}

    def _update(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        s, mask = self.settings, rows["mask"]
        logits, values, _ = self.policy(rows["obs"], rows["hidden"], rows["first"])
        log_ratio = chosen(logits, rows["action"]) - rows["behavior"]
        ratio, advantage = log_ratio.exp(), rows["advantage"]
        clipped = ratio.clamp(1 - s.clip, 1 + s.clip)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage)[mask].mean()
        value_loss = (values - rows["target"]).square()[mask].mean()
        entropy = -(logits.exp() * logits).sum(-1)[mask].mean()
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
            "kl": (ratio - 1 - log_ratio)[mask].mean().item(),
        }


def read(arrays: Arrays) -> dict[str, Tensor]:
    """Return a batch's tensors for the loss, ``[N, T, …]``, and ``hidden [N, units]``."""
    fragments, _ = arrays["reward"].shape
    hidden = arrays.get("in_state.hidden", np.zeros((fragments, 0), np.float32))
    return {
        "obs": torch.from_numpy(arrays["obs"]).float().flatten(2),
        "action": torch.from_numpy(arrays["action"]).long(),
        "behavior": torch.from_numpy(arrays["behavior_logprob"]),
        "first": torch.from_numpy(arrays["first"]),
        "mask": torch.from_numpy(arrays["mask"]),
        "hidden": torch.from_numpy(hidden),
    }


def chosen(logits: Tensor, actions: Tensor) -> Tensor:
    """Return the logprobs ``[N, T]`` of the taken actions."""
    return logits.gather(-1, actions[..., None]).squeeze(-1)


def policy_for(config: Mapping[str, Any]) -> RecurrentPolicy | MlpPolicy:
    """Return a new policy for the policy kind and environment of a run's configuration.

    Raises:
        ValueError: If this trainer does not support the policy kind.
    """
    observation, action = spaces_of(config)
    sizes = list(config["policy"]["hidden_sizes"])
    match config["policy"]["kind"]:
        case "gru":
            units = config["policy"]["recurrent_units"]
            return RecurrentPolicy(observation.size, action.choices, sizes, units)
        case "mlp":
            return MlpPolicy(observation.size, action.choices, sizes)
    raise ValueError(f"policy.kind: {config['policy']['kind']} is neither gru nor mlp")


def train_on(batch: Batch, learner: Learner) -> dict[str, float]:
    """Train the next version on `batch` and return its metrics."""
    arrays = learner.arrays_of(batch)
    metrics = learner.learn(arrays)
    staleness = (batch.head.policy_step - arrays["policy_step"])[arrays["mask"]]
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


def parse_args(defaults: PpoSettings | None = None) -> argparse.Namespace:
    """Return the arguments, with defaults from environment variables and of `PpoSettings`."""
    parser = argparse.ArgumentParser(description="Train a policy, with or without memory.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--name", default="trainer", help="shown on the run's page")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    for name, value in asdict(defaults or PpoSettings()).items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(value), default=value, help="default %(default)s")
    return parser.parse_args()


def settings_of(args: argparse.Namespace) -> PpoSettings:
    """Return the hyperparameters of the arguments."""
    return PpoSettings(**{one.name: getattr(args, one.name) for one in fields(PpoSettings)})


def main() -> None:
    """Train with the arguments of the command line."""
    args = parse_args()
    train(args, lambda policy, seed: Learner(policy, settings_of(args), seed))


def train(args: argparse.Namespace, make_learner: Callable[[nn.Module, int], Learner]) -> None:
    """Register, publish the initial weights, then learn from each batch."""
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with Trainer(args.url, args.run, args.token, name=args.name) as trainer:
        registration = trainer.register(resume=args.resume)
        config = registration.config
        torch.manual_seed(config["seed"])
        policy = policy_for(config).to(args.device)
        step = max(0, registration.policy_step)
        if args.resume and registration.policy_step >= 0:
            _, tensors = trainer.current_weights()
            policy.load_state_dict({name: torch.tensor(x) for name, x in tensors.items()})
        else:
            trainer.publish_weights(policy.state_dict(), step=0)
        learner = make_learner(policy, config["seed"])
        for batch in trainer.batches():
            step += 1
            metrics = train_on(batch, learner)
            trainer.publish_weights(policy.state_dict(), step=step)
            trainer.log_metrics(metrics, step=step)
            shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
            print(f"version {step} from batch {batch.head.ordinal}: {shown}", flush=True)
            if step >= config["num_steps"]:
                trainer.ack(batch)
                return


if __name__ == "__main__":
    main()
