"""Comparison of a screenshot with an accepted one, and the small files of accepted ones.

Two rules hold for the channels of a pixel, 0 to 255:

- `FLAT_TOLERANCE` is the largest difference where, in one of the two pictures, a pixel and its
  eight neighbours have one colour. Surfaces are rendered exactly, and a faint border that appears
  or disappears lies in such an area.
- `EDGE_TOLERANCE` is the largest difference elsewhere, which includes text. Antialiasing depends on
  the build of Chromium and on the processor, and files store it with fewer colours.

`MAX_FRACTION` of all pixels may differ by more: 129 of 1440 × 900, fewer than those of a changed
word. Repeated screenshots of one build differ in none.
"""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

FLAT_TOLERANCE: Final = 2
EDGE_TOLERANCE: Final = 32
MAX_FRACTION: Final = 1e-4
COLOURS: Final = 256
"""Colours of a PNG with a palette, which is a third as large as one without."""
BROWSER: Final = "Chromium"
"""Key of the PNG's text with the browser's version."""


class Difference(NamedTuple):
    """Result of a comparison."""

    expected: Pixels
    differs: Mask
    """Whether each pixel differs; all do in pictures of different sizes."""

    @property
    def fraction(self) -> float:
        return float(self.differs.mean())

    @property
    def is_too_large(self) -> bool:
        return self.fraction > MAX_FRACTION

    def picture(self) -> Image.Image:
        """Return the expected picture in pale grey, with the differing pixels in red."""
        pale = 255 - (255 - self.expected.mean(axis=2, keepdims=True).repeat(3, axis=2)) / 4
        shown = np.where(self.differs[..., None], (220, 0, 0), pale)
        return Image.fromarray(shown.astype(np.uint8))


def read(content: bytes | Path) -> Pixels:
    """Return the pixels of a PNG, ``[height, width, 3]``."""
    source: Any = BytesIO(content) if isinstance(content, bytes) else content
    with Image.open(source) as image:
        return np.asarray(image.convert("RGB"))


def browser_of(path: Path) -> str:
    """Return the version of the browser that took an accepted picture."""
    with Image.open(path) as image:
        return str(image.info.get(BROWSER, "unknown"))


def compare(expected: Pixels, actual: Pixels) -> Difference:
    """Compare two pictures by the rules of this module."""
    if expected.shape != actual.shape:
        return Difference(expected, np.ones(expected.shape[:2], np.bool_))
    distance = np.abs(expected.astype(np.int16) - actual).max(axis=2)
    differs: Mask = distance > FLAT_TOLERANCE
    if differs.any():
        is_edge = ~(flat(expected) | flat(actual))
        differs &= ~is_edge | (distance > EDGE_TOLERANCE)
    return Difference(expected, differs)


def flat(pixels: Pixels) -> Mask:
    """Return whether each pixel has the colour of its eight neighbours, ``[height, width]``."""
    packed = _packed(pixels)
    padded = np.pad(packed, 1, mode="edge")
    height, width = packed.shape
    same = np.ones_like(packed, dtype=np.bool_)
    for down in range(3):
        for right in range(3):
            same &= padded[down : down + height, right : right + width] == packed
    return same


def save(pixels: Pixels, path: Path, *, browser: str) -> None:
    """Write an accepted picture; with a palette, unless that alone uses a tenth of the limit."""
    text = PngInfo()
    text.add_text(BROWSER, browser)
    image = _with_palette(pixels)
    if compare(np.asarray(image.convert("RGB")), pixels).fraction > MAX_FRACTION / 10:
        image = Image.fromarray(pixels)
    image.save(path, format="PNG", optimize=True, pnginfo=text)


def _with_palette(pixels: Pixels) -> Image.Image:
    """Return an image of at most 256 colours that differs little from the picture."""
    packed = _packed(pixels)
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    is_flat = np.isin(colours, packed[flat(pixels)])
    by_frequency = np.argsort(-counts, kind="stable")
    flat_ones, others = (
        _unpacked(colours[by_frequency[chosen[by_frequency]]]) for chosen in (is_flat, ~is_flat)
    )
    palette = np.empty((0, 3), np.int32)
    for part, tolerance in ((flat_ones, FLAT_TOLERANCE), (others, EDGE_TOLERANCE)):
        palette = _extended(palette, part, tolerance)
    nearest = _nearest(_unpacked(colours), palette)
    image = Image.fromarray(nearest.astype(np.uint8)[places].reshape(packed.shape), mode="P")
    image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def _extended(
    palette: NDArray[np.int32], colours: NDArray[np.int32], tolerance: int
) -> NDArray[np.int32]:
    """Return the palette with the fewest losses, at most 256 colours, to show more colours.

    Args:
        palette: Colours so far, ``[number, 3]``.
        colours: Further ones, the most frequent first.
        tolerance: Largest accepted difference of a channel.
    """
    for radius in range(tolerance + 1):
        kept, far = list(palette), colours
        if kept:
            far = far[_distance(far, palette).min(axis=1) > radius]
        while len(far) and len(kept) < COLOURS:
            kept.append(far[0])
            far = far[np.abs(far - far[0]).max(axis=1) > radius]
        if not len(far):
            break
    return np.array(kept, np.int32).reshape(-1, 3)


def _distance(colours: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the largest difference of a channel, ``[colours, others]``."""
    return np.abs(colours[:, None] - others[None]).max(axis=2)


def _nearest(colours: NDArray[np.int32], palette: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the index of each colour's nearest one in the palette."""
    return np.concatenate([_distance(part, palette).argmin(axis=1) for part in _parts(colours)])


def _parts(colours: NDArray[np.int32]) -> Iterable[NDArray[np.int32]]:
    return np.array_split(colours, max(1, len(colours) // 1000))


def _packed(pixels: Pixels) -> NDArray[np.int32]:
    wide = pixels.astype(np.int32)
    return (wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2]


def _unpacked(colours: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
