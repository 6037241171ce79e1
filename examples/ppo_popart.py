"""Train a policy with PPO and a value function normalized by PopArt, for rewards of any scale.

    python -m examples.ppo_popart --url http://127.0.0.1:8000 --run acrobot --token rd_…

It is `ppo_cartpole.py` with `rolldeck.training.popart`: the value network learns targets of mean 0
and deviation 1, so the learning rate and the gradient clip fit returns of 1 as well as of 100,000.
`--reward-scale 1000` multiplies every reward, to try it on any environment.

The fleet is not aware of it: the published weights are those of a value network in the unit of the
rewards. A trainer that resumes begins with their outputs and statistics of its own.

Source: PopArt, van Hasselt et al. 2016, arXiv:1602.07714, as in `rolldeck.training.popart`.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from examples.ppo_cartpole import (
    Arrays,
    Floats,
    Learner,
    MlpPolicy,
    PpoSettings,
    argument_parser,
    explained_variance,
    settings_of,
    train,
)
from rolldeck.training.popart import PopArt
from rolldeck.training.returns import TrainingTargets, Transitions

BETA = 0.1
"""Weight of the newest batch in the statistics; they cover about 10 batches."""


class PopArtLearner(Learner):
    """Learner whose value network has normalized outputs."""

    def __init__(self, policy: MlpPolicy, settings: PpoSettings, seed: int) -> None:
        super().__init__(policy, settings, seed)
        self.popart = PopArt(beta=BETA)
        self._head = policy.value_net[-1]
        self._explained = 0.0

    def learn(self, arrays: Arrays, train_step: int) -> dict[str, float]:
        """Update the policy from the arrays of `Batch.stack`; return metrics."""
        return super().learn(arrays, train_step) | {
            "explained_variance": self._explained,
            "value_mean": float(self.popart.mean[0]),
            "value_std": float(self.popart.std[0]),
        }

    def weights(self) -> dict[str, Tensor]:
        """Return the policy's weights with values in the unit of the rewards, to publish."""
        weights = dict(self.policy.state_dict())
        last = f"value_net.{len(self.policy.value_net) - 1}"
        names = f"{last}.weight", f"{last}.bias"
        raw = self.popart.unnormalized(*(weights[name].numpy() for name in names))
        return weights | {name: torch.from_numpy(x) for name, x in zip(names, raw, strict=True)}

    def _value_of(self, obs: NDArray[Any]) -> Floats:
        return self.popart.denormalize(super()._value_of(obs))

    def _learned(self, arrays: Arrays, steps: Transitions) -> TrainingTargets:
        """Return the advantages, and targets that are normalized with their own statistics."""
        learned = super()._learned(arrays, steps)
        self._explained = explained_variance(steps.values, learned.targets)
        self.popart.update(learned.targets[steps.mask], (self._head.weight, self._head.bias))
        return learned._replace(targets=self.popart.normalize(learned.targets))


def main() -> None:
    """Train with the arguments of the command line."""
    args = argument_parser().parse_args()
    settings = settings_of(args)
    train(args, lambda policy, seed: PopArtLearner(policy, settings, seed))


if __name__ == "__main__":
    main()
