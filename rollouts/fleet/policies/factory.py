"""Create the policy of a run's configuration."""

import torch
from torch import nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.convolutional import (
    ConvolutionalPolicy,
    ImageEncoder,
    TorchConvolutional,
)
from rollouts.fleet.policies.heads import Head, head_for
from rollouts.fleet.policies.inputs import NoImages, image_parts, image_shape
from rollouts.fleet.policies.mlp import MlpPolicy, TorchMlp
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from rollouts.fleet.policies.recurrent import RecurrentPolicy, TorchRecurrent
from rollouts.fleet.policies.registered import RegisteredPolicy, build
from rollouts.fleet.policies.spaces import Space
from runs.config.rules.extensions import BUILT_IN
from runs.config.rules.sections import PolicyConfig


def make_policy(
    config: PolicyConfig, observation: Space, action: Space, *, seed: int, device: str = "auto"
) -> TorchPolicy:
    """Return a policy without weights.

    Args:
        config: Policy configuration of the run.
        observation: Observation space.
        action: Action space.
        seed: Random seed of the actions.
        device: ``auto`` uses a GPU if there is one.

    Raises:
        PolicyDoesNotFit: If the policy does not support such observations, or the device is missing
            or does not support the precision.
    """
    if config.kind == "mlp":
        return TorchMlp(
            observation,
            action,
            hidden_sizes=config.hidden_sizes,
            seed=seed,
            device=device,
            precision=config.precision,
        )
    if config.kind not in BUILT_IN:
        return RegisteredPolicy(
            build(config.kind, config.kwargs, observation, action),
            kind=config.kind,
            observation=observation,
            action=action,
            seed=seed,
            device=device,
            precision=config.precision,
        )
    # Only the names and shapes of the module are used.
    with torch.device("meta"):
        module = make_module(config, observation, action)
    kind = TorchRecurrent if config.kind == "gru" else TorchConvolutional
    return kind(
        module,
        observation=observation,
        action=action,
        seed=seed,
        device=device,
        precision=config.precision,
    )


def make_module(config: PolicyConfig, observation: Space, action: Space) -> nn.Module:
    """Return the network of a policy with initial weights.

    Raises:
        PolicyDoesNotFit: If the policy does not support such observations.
    """
    if config.kind not in BUILT_IN:
        return build(config.kind, config.kwargs, observation, action)
    head = head_for(action)
    if config.kind == "mlp":
        return MlpPolicy(
            observation.size,
            head.outputs,
            config.hidden_sizes,
            is_continuous=head.is_continuous,
        )
    if config.kind == "gru":
        return _recurrent(config, observation, head)
    return ConvolutionalPolicy(
        _image_encoder(config, observation), head.outputs, is_continuous=head.is_continuous
    )


def _recurrent(config: PolicyConfig, observation: Space, head: Head) -> RecurrentPolicy:
    has_images = observation.is_image or any(p.is_image for p in observation.parts.values())
    return RecurrentPolicy(
        _image_encoder(config, observation) if has_images else observation.size,
        head.outputs,
        hidden_sizes=config.hidden_sizes,
        recurrent_units=config.recurrent_units,
        is_continuous=head.is_continuous,
    )


def _image_encoder(config: PolicyConfig, observation: Space) -> ImageEncoder:
    try:
        shape = image_shape(observation)
    except NoImages as error:
        raise PolicyDoesNotFit("policy.kind", f"{config.kind} needs images: {error}") from error
    in_pictures = sum(part.size for part in image_parts(observation).values())
    return ImageEncoder(
        shape,
        observation.size - in_pictures,
        channels=config.channels,
        hidden_sizes=config.hidden_sizes,
    )
