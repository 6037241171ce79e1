"""Decoding of a run's tokens to text, by registered tokenizers."""

from collections.abc import Callable, Sequence

from runs.lifecycle.models.runs import Run

Pieces = Callable[[Sequence[int]], list[str]]
"""Returns the text of each token in a sequence; empty if a later token completes the character."""

_readers: list[Callable[[Run], Pieces | None]] = []


def read_tokens_with(reader: Callable[[Run], Pieces | None]) -> None:
    """Register ``reader(run)``, which returns a decoder for a run's tokens, or None if unknown.

    Apps with tokenizers register in ``AppConfig.ready``.
    """
    if reader not in _readers:
        _readers.append(reader)


def pieces_of(run: Run) -> Pieces | None:
    """Return the decoder for a run's tokens, or None if there is none."""
    return next((found for reader in _readers if (found := reader(run)) is not None), None)
