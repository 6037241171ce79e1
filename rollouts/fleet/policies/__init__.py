"""Torch policies, shared by a fleet and its trainer.

A trainer publishes the state dict of one of these modules. Trainers in other frameworks must use
the same tensor names, which each module documents.
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
