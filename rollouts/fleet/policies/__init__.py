"""Choose actions with torch: the policies that a fleet and its trainer share.

A trainer publishes the state of one of the modules here; a trainer in another framework only has
to use the same tensor names, which each module's documentation lists.
"""

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.convolutional import (
    ConvolutionalPolicy,
    ImageEncoder,
    TorchConvolutional,
)
from rollouts.fleet.policies.factory import make_module, make_policy
from rollouts.fleet.policies.heads import head_for
from rollouts.fleet.policies.inputs import images, others, vectors
from rollouts.fleet.policies.mlp import MlpPolicy, TorchMlp
from rollouts.fleet.policies.recurrent import RecurrentPolicy, TorchRecurrent

__all__ = [
    "ConvolutionalPolicy",
    "ImageEncoder",
    "MlpPolicy",
    "RecurrentPolicy",
    "TorchConvolutional",
    "TorchMlp",
    "TorchPolicy",
    "TorchRecurrent",
    "head_for",
    "images",
    "make_module",
    "make_policy",
    "others",
    "vectors",
]
