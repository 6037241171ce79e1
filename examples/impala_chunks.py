"""Train a policy with IMPALA on chunks of consecutive fragments of a Rolldeck run.

    python -m examples.impala_chunks --url http://127.0.0.1:8000 --run chunks --token rd_…

It differs from `ppo_recurrent.py`, whose policies and V-trace it uses, in two ways:

Consecutive fragments of an env slot are joined: a row is a chunk, over which V-trace and the
gradients of a recurrent policy go on past the borders of fragments. The configuration of the run
determines the fragments that a batch has of each slot, for instance 8 of 4 steps::

    {"fleet": {"fragment_length": 4},
     "buffer": {"batch_size": 128, "replay": {"fragments_per_chunk": 8}}}

The loss is the policy gradient with V-trace's weights: each chunk is used in one gradient step, so
that no clipped ratio is needed, also for data several versions old.

Source: IMPALA, Espeholt et al. 2018, arXiv:1802.01561, section 4.2, with Adam for RMSProp.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from examples.ppo_recurrent import (
    Arrays,
    Learner,
    PpoSettings,
    chosen,
    parse_args,
    settings_of,
    train,
)
from rolldeck.trainer import Batch
from rolldeck.training.chunks import join, stack

SETTINGS = PpoSettings(epochs=1, fragments_per_minibatch=1, gamma=0.98)
"""One epoch with a gradient step per chunk; `clip` is not used."""


class ImpalaLearner(Learner):
    """Learner with the loss of IMPALA instead of PPO's."""

    def __init__(self, policy: nn.Module, seed: int, settings: PpoSettings = SETTINGS) -> None:
        super().__init__(policy, settings, seed)

    @staticmethod
    def arrays_of(batch: Batch) -> Arrays:
        """Return the joined fragments of a batch as padded arrays, a row per chunk."""
        return stack(join(batch.fragments))

    def _update(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        s, mask = self.settings, rows["mask"]
        logits, values, _ = self.policy(rows["obs"], rows["hidden"], rows["first"])
        logprobs = chosen(logits, rows["action"])
        log_ratio = logprobs.detach() - rows["behavior"]
        weights = log_ratio.clamp(max=0).exp()
        policy_loss = -(weights * rows["advantage"] * logprobs)[mask].mean()
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
            "kl": (log_ratio.exp() - 1 - log_ratio)[mask].mean().item(),
        }


def main() -> None:
    """Train with the arguments of the command line."""
    args = parse_args(SETTINGS)
    train(args, lambda policy, seed: ImpalaLearner(policy, seed, settings_of(args)))


if __name__ == "__main__":
    main()
