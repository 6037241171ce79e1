"""Read a bounded number of rows over the whole life of a run: some of each id range."""

from typing import Final

RANGES_AT_MOST: Final = 240


def id_ranges(first: int, last: int, *, each: int) -> tuple[dict[str, int], bool]:
    """Return the parameters of a statement that reads at most `each` rows of every id range.

    Args:
        first: The smallest id.
        last: The largest id, at least `first`.
        each: Maximum number of rows read per id range.

    Returns:
        ``first``, ``last``, ``step`` (ids per range) and ``each``; and whether this reads all
        rows, because no range holds more than `each` ids.
    """
    step = (last - first) // RANGES_AT_MOST + 1
    return {"first": first, "last": last, "step": max(step, each), "each": each}, step <= each
