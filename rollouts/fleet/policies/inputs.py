"""Turn observations, as they travel, into what networks take.

Trainers use these too: they work for any leading axes, ``[N, T, …]`` as well as ``[B, …]``.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.spaces import Space


def vectors(space: Space, obs: NDArray[Any]) -> Tensor:
    """Return ``obs […, *space.shape]`` as float32 ``[…, space.size]``.

    Choices become one-hot, bytes numbers in [0, 1]; parts are put side by side in their order.
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
    """Return the pictures of ``obs […]`` as uint8 ``[…, H, W, C]``, channels side by side.

    Raises:
        NoImages: If there are none, or several of different sizes.
    """
    chosen = image_parts(space)
    pictures = [obs[name] if name else obs for name in chosen]
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(pictures, axis=-1)))


def others(space: Space, obs: NDArray[Any]) -> Tensor:
    """Return everything but the pictures of ``obs […]`` as float32 ``[…, numbers]``."""
    rest = [(name, part) for name, part in space.parts.items() if not part.is_image]
    if not rest:
        return torch.zeros((*obs.shape[: obs.ndim - len(space.shape)], 0))
    return torch.cat([vectors(part, obs[name]) for name, part in rest], dim=-1)


class NoImages(ValueError):
    """Observations hold no pictures, or pictures that do not lie side by side."""


def image_parts(space: Space) -> dict[str, Space]:
    """Return the pictures in observations by name, the empty name for observations themselves.

    Raises:
        NoImages: If there are none, or several of different sizes.
    """
    if space.is_image:
        return {"": space}
    found = {name: part for name, part in space.parts.items() if part.is_image}
    sizes = {part.shape[:2] for part in found.values()}
    if len(sizes) != 1:
        raise NoImages("pictures differ in size" if sizes else f"no uint8 [H, W, C] among: {space}")
    return found


def image_shape(space: Space) -> tuple[int, int, int]:
    """Return height, width and channels of all pictures together.

    Raises:
        NoImages: If there are none, or several of different sizes.
    """
    parts = list(image_parts(space).values())
    height, width, _ = parts[0].shape
    return height, width, sum(part.shape[2] for part in parts)


def _one_hot(numbers: NDArray[np.int64], choices: int) -> Tensor:
    return nn.functional.one_hot(torch.from_numpy(np.ascontiguousarray(numbers)), choices).float()
