"""Make the policy that a run's configuration asks for."""

from rollouts.fleet.environments import Space
from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.mlp import TorchMlp
from runs.core.policy_config import PolicyConfig


def make_policy(
    config: PolicyConfig, observation: Space, action: Space, *, seed: int, device: str = "auto"
) -> TorchPolicy:
    """Return a policy without weights.

    Args:
        config: Of the run.
        observation: Form of observations.
        action: Form of actions.
        seed: Of the draws.
        device: ``auto`` takes a GPU if there is one.
    """
    return TorchMlp(observation, action, hidden_sizes=config.hidden_sizes, seed=seed, device=device)
