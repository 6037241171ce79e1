"""Layers shared by the policies, with orthogonal weights."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def linear(inputs: int, units: int, gain: float) -> nn.Linear:
    """Return a dense layer with weights of scale `gain` and zero bias."""
    layer = nn.Linear(inputs, units)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_mlp(sizes: Sequence[int], gain: float) -> nn.Sequential:
    """Return a tanh MLP whose last layer is linear.

    Args:
        sizes: Inputs, units of each hidden layer, outputs.
        gain: Scale of the last layer's weights.
    """
    return nn.Sequential(*tanh_layers(sizes[:-1]), linear(sizes[-2], sizes[-1], gain))


def tanh_layers(sizes: Sequence[int]) -> list[nn.Module]:
    """Return dense layers, each followed by tanh; `sizes` are the inputs and units per layer."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [linear(inputs, units, math.sqrt(2)), nn.Tanh()]
    return layers
