"""Order of the axes of an image, read from its shape.

An image is ``[H, W, C]``, ``[C, H, W]`` (such as a stack of frames) or ``[H, W]``. The channels are
the smallest axis. Only the last axis may be channels without being the smallest, as in the layers
of a small grid.
"""

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Layout = Literal["HWC", "CHW", "HW", "ambiguous"]
MOST_CHANNELS: Final = 32
LEAST_SIDE: Final = 16
"""Minimum side of an image without channels; a smaller array is a table of numbers."""


def layout_of(shape: tuple[int, ...]) -> Layout | None:
    """Return the layout of an image of that shape; None if it is no image."""
    if len(shape) == 2:
        return "HW" if min(shape) >= LEAST_SIDE else None
    if len(shape) != 3:
        return None
    first, middle, last = shape
    if first >= min(middle, last):
        return "HWC"
    if first <= MOST_CHANNELS and (middle == last or last > MOST_CHANNELS):
        return "CHW"
    return "ambiguous"


def channels_last(image: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return a view of images ``[…, *shape]`` as ``[…, H, W, C]``."""
    if layout == "HW":
        return image[..., None]
    return np.moveaxis(image, -3, -1) if layout == "CHW" else image


def picture(frame: Any) -> NDArray[Any] | None:
    """Return a rendered frame as ``[H, W, 3]``; None if it is none of the layouts."""
    if not isinstance(frame, np.ndarray):
        return None
    layout = "HW" if frame.ndim == 2 else layout_of(frame.shape)
    if layout not in ("HW", "HWC", "CHW"):
        return None
    found = channels_last(frame, layout)
    if found.shape[-1] == 1:
        return np.repeat(found, 3, axis=-1)
    return found[..., :3] if found.shape[-1] in (3, 4) else None
