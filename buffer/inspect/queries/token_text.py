"""Decoding of a run's tokens to text, by the tokenizers of its fleet."""

from collections.abc import Callable, Sequence
from typing import Final

from runs.lifecycle.models import Run

Pieces = Callable[[Sequence[int]], list[str]]
"""Returns the text of each token in a sequence; empty if a later token completes the character."""

READERS: Final[list[Callable[[Run], Pieces | None]]] = []
"""Return a decoder for a run's tokens, or None if unknown (:mod:`config.readers`)."""


def pieces_of(run: Run) -> Pieces | None:
    """Return the decoder for a run's tokens, or None if there is none."""
    return next((found for reader in READERS if (found := reader(run)) is not None), None)
