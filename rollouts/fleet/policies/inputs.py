"""Convert stored observations to network inputs.

Trainers use these functions too; any leading axes are allowed, ``[N, T, …]`` as well as ``[B, …]``.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.spaces import Space, channels_last


def vectors(space: Space, obs: NDArray[Any]) -> Tensor:
    """Return ``obs […, *space.shape]`` as float32 ``[…, space.size]``.

    Choices become one-hot vectors, and bytes become values in [0, 1]. Parts are concatenated.
    """
    if space.kind == "parts":
        return torch.cat([vectors(part, obs[name]) for name, part in space.parts.items()], dim=-1)
    if space.kind == "discrete":
        return _one_hot(obs.astype(np.int64) - space.start, space.choices)
    if space.kind == "multi_discrete":
        columns = obs.astype(np.int64)
        each = enumerate(space.each_choices)
        return torch.cat([_one_hot(columns[..., at], choices) for at, choices in each], dim=-1)
    leading = obs.shape[: obs.ndim - len(space.shape)]
    flat = torch.from_numpy(np.ascontiguousarray(obs).reshape(*leading, space.size))
    return flat.float() / 255 if space.dtype == "uint8" else flat.float()


def images(space: Space, obs: NDArray[Any]) -> Tensor:
    """Return the images of ``obs […]`` as uint8 ``[…, H, W, C]``, with concatenated channels.

    Raises:
        NoImages: If there are none, or their sizes differ.
    """
    pictures = [
        channels_last(obs[name] if name else obs, part.image_layout or "HWC")
        for name, part in image_parts(space).items()
    ]
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(pictures, axis=-1)))


def others(space: Space, obs: NDArray[Any]) -> Tensor:
    """Return all parts of ``obs […]`` except images as float32 ``[…, numbers]``."""
    rest = [(name, part) for name, part in space.parts.items() if not part.is_image]
    if not rest:
        return torch.zeros((*obs.shape[: obs.ndim - len(space.shape)], 0))
    return torch.cat([vectors(part, obs[name]) for name, part in rest], dim=-1)


class NoImages(ValueError):
    """The observations contain no images, or images of different sizes."""


def image_parts(space: Space) -> dict[str, Space]:
    """Return the image parts of observations by name; the empty name is the whole observation.

    Raises:
        NoImages: If there are none, their sizes differ, or the order of their axes is unknown.
    """
    parts = {"": space} if space.is_image else space.parts
    found = {name: part for name, part in parts.items() if part.is_image}
    for name, part in found.items():
        if part.image_layout == "ambiguous":
            raise NoImages(
                f"{name or 'the observation'}: {part} may be [H, W, C] or [C, H, W]; make the "
                "channels its smallest axis with gymnasium.wrappers.TransformObservation"
            )
    sizes = {_size(part)[:2] for part in found.values()}
    if len(sizes) != 1:
        raise NoImages("image sizes differ" if sizes else f"no uint8 image in: {space}")
    return found


def image_shape(space: Space) -> tuple[int, int, int]:
    """Return height, width and total channels of all images.

    Raises:
        NoImages: If there are none, or their sizes differ.
    """
    sizes = [_size(part) for part in image_parts(space).values()]
    return *sizes[0][:2], sum(channels for _, _, channels in sizes)


def _size(part: Space) -> tuple[int, int, int]:
    """Return height, width and channels of an image."""
    empty = np.empty(part.shape, np.uint8)
    height, width, channels = channels_last(empty, part.image_layout or "HWC").shape
    return height, width, channels


def _one_hot(numbers: NDArray[np.int64], choices: int) -> Tensor:
    return nn.functional.one_hot(torch.from_numpy(np.ascontiguousarray(numbers)), choices).float()
