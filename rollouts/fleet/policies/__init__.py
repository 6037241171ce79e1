"""Choose actions with torch: the policies that a fleet and its trainer share.

A trainer publishes the state of one of the modules here; a trainer in another framework only has
to use the same tensor names, which each module's documentation lists.
"""

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.mlp import MlpPolicy, TorchMlp

__all__ = ["MlpPolicy", "TorchMlp", "TorchPolicy", "make_policy"]
