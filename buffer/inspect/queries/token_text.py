"""Make text of a run's tokens, where somebody knows how."""

from collections.abc import Callable, Sequence

from runs.models import Run

Pieces = Callable[[Sequence[int]], list[str]]
"""The text of each of some consecutive tokens; empty where only a later one completes it."""

_readers: list[Callable[[Run], Pieces | None]] = []


def read_tokens_with(reader: Callable[[Run], Pieces | None]) -> None:
    """Let ``reader(run)`` say how the tokens of a run read; None if it does not know.

    Whoever knows tokenizers registers here in ``AppConfig.ready``.
    """
    if reader not in _readers:
        _readers.append(reader)


def pieces_of(run: Run) -> Pieces | None:
    """Return what makes text of a run's tokens, or None where nobody knows."""
    return next((found for reader in _readers if (found := reader(run)) is not None), None)
