"""Read a bounded number of rows from all of a run's life: some of each stretch of its ids. Pure."""

from typing import Final

STRETCHES: Final = 240


def stretches(first: int, last: int, *, each: int) -> tuple[dict[str, int], bool]:
    """Return the bounds of a statement that reads `each` rows of every stretch at most.

    Args:
        first: The least id.
        last: The greatest id, not below the first.
        each: Rows that are read of a stretch.

    Returns:
        ``first``, ``last``, ``step`` (ids of a stretch) and ``each``; and whether that reads all
        rows, as a stretch of as many ids as are read of it holds no further ones.
    """
    step = (last - first) // STRETCHES + 1
    return {"first": first, "last": last, "step": max(step, each), "each": each}, step <= each
