"""Train the LSTM policy with PPO on the batches of a Rolldeck run.

    python -m own_policy.train --url http://127.0.0.1:8000 --run lstm --token rd_…

The run names the policy, for instance `{"policy": {"kind": "package:lstm"}}`, and an environment
with flat observations and one discrete action.

Sources: PPO, Schulman et al. 2017, arXiv:1707.06347, equations 7 and 9; V-trace as in
`rolldeck.training.returns`; starting from stored states, Kapturowski et al. 2019 (R2D2), section 3.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from own_policy.network import LstmPolicy
from rolldeck.trainer import Trainer
from rolldeck.training.returns import transitions, vtrace
from rollouts.fleet.environments.run_spaces import spaces_of

State = dict[str, Tensor]
EPOCHS, CLIP, GAMMA, LAMBDA, ENTROPY = 4, 0.2, 0.98, 0.95, 0.005


def policy_for(config: Mapping[str, Any]) -> LstmPolicy:
    """Return a new policy for the environment and the arguments of a run's configuration."""
    observation, action = spaces_of(config)
    return LstmPolicy(observation, action, **config["policy"]["kwargs"])


def unroll(
    policy: LstmPolicy, obs: Tensor, state: State, first: Tensor
) -> tuple[Tensor, Tensor, State]:
    """Read N fragments of T steps.

    Args:
        policy: The network.
        obs: ``[N, T, numbers]``.
        state: State before step 0, ``[N, units]`` each.
        first: ``[N, T]`` bool.

    Returns:
        Log probabilities ``[N, T, choices]``, values ``[N, T]`` and the states after each step,
        ``[N, T, units]`` each.
    """
    logits, values, states = [], [], []
    for t in range(obs.shape[1]):
        outputs, value, state = policy(obs[:, t], state, first[:, t])
        logits.append(outputs)
        values.append(value)
        states.append(state)
    after = {name: torch.stack([one[name] for one in states], dim=1) for name in state}
    return torch.stack(logits, 1).log_softmax(-1), torch.stack(values, 1), after


class Learner:
    """PPO on whole fragments."""

    def __init__(self, policy: LstmPolicy) -> None:
        self.policy = policy
        self._device = next(policy.parameters()).device
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3, eps=1e-5)

    def learn(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Update the policy from the arrays of `Batch.stack`; return metrics."""
        data = {
            name: torch.from_numpy(np.asarray(array)).to(self._device)
            for name, array in arrays.items()
        }
        start = {"h": data["in_state.h"], "c": data["in_state.c"]}
        action, mask = data["action"].long()[..., None], data["mask"]
        advantage, target = self._targets(arrays, data, start)
        advantage = (advantage - advantage[mask].mean()) / (advantage[mask].std() + 1e-8)
        for _ in range(EPOCHS):
            logprobs, values, _ = unroll(self.policy, data["obs"], start, data["first"])
            log_ratio = logprobs.gather(-1, action).squeeze(-1) - data["behavior_logprob"]
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            policy_loss = -torch.min(ratio * advantage, clipped * advantage)[mask].mean()
            value_loss = (values - target).square()[mask].mean()
            entropy = -(logprobs.exp() * logprobs).sum(-1)[mask].mean()
            loss = policy_loss + 0.5 * value_loss - ENTROPY * entropy
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
            self.optimizer.step()
        kl = (ratio - 1 - log_ratio)[mask].mean().item()
        return {"loss": loss.item(), "entropy": entropy.item(), "kl": kl}

    @torch.no_grad()
    def _targets(
        self, arrays: Mapping[str, NDArray[Any]], data: Mapping[str, Tensor], start: State
    ) -> tuple[Tensor, Tensor]:
        logprobs, values, after = unroll(self.policy, data["obs"], start, data["first"])
        ends = torch.arange(len(values), device=self._device), data["mask"].sum(dim=1) - 1
        final = arrays["final_fragment"], arrays["final_step"]
        steps = transitions(
            arrays,
            values=values.cpu().numpy(),
            last_values=self._value_after(arrays["next_obs"], after, ends),
            final_values=self._value_after(arrays["final_obs"], after, final),
        )
        chosen = logprobs.gather(-1, data["action"].long()[..., None]).squeeze(-1)
        log_ratio = (chosen - data["behavior_logprob"]).cpu().numpy()
        learned = vtrace(steps, log_ratio, gamma=GAMMA, lam=LAMBDA)
        advantages, targets = map(torch.from_numpy, (learned.advantages, learned.targets))
        return advantages.to(self._device), targets.to(self._device)

    def _value_after(self, obs: NDArray[Any], after: State, at: Any) -> NDArray[np.float32]:
        """Return the values ``[B]`` of ``obs [B, …]`` that follow the states at `at`."""
        state = {name: rows[at] for name, rows in after.items()}
        going_on = torch.zeros(len(obs), dtype=torch.bool, device=self._device)
        seen = torch.from_numpy(obs).to(self._device)
        values: NDArray[np.float32] = self.policy(seen, state, going_on)[1].cpu().numpy()
        return values


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


def main() -> None:
    """Register, publish the initial weights, then learn from each batch."""
    parser = argparse.ArgumentParser(description="Train an LSTM policy with PPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--run", default=given("ROLLDECK_RUN", "lstm"))
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with Trainer(args.url, args.run, args.token, name="lstm") as trainer:
        config = trainer.register().config
        torch.manual_seed(config["seed"])
        policy = policy_for(config).to(args.device)
        trainer.publish_weights(policy.state_dict(), step=0)
        learner = Learner(policy)
        for step, batch in enumerate(trainer.batches(), start=1):
            metrics = learner.learn(batch.stack())
            trainer.publish_weights(policy.state_dict(), step=step)
            trainer.log_metrics(metrics, step=step)
            shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
            print(f"version {step} from batch {batch.head.ordinal}: {shown}", flush=True)


if __name__ == "__main__":
    main()
