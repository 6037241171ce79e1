"""Rows of different lengths in one flat array, for vectorized processing."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """S concatenated rows of numbers.

    Attributes:
        values: ``[Σ lengths]``, any dtype.
        lengths: ``[S]`` int64, number of values in each row.
    """

    values: NDArray[Any]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: Any) -> "Rows":
        """Convert lists or arrays to rows of `dtype`."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        parts = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
        return cls(values, lengths)

    def head(self, count: int) -> "Rows":
        """Return the first `count` values of each row."""
        return Rows(self.values[self.is_within(count)], np.minimum(self.lengths, count))

    def only(self, kept: NDArray[np.bool_]) -> "Rows":
        """Return some of the rows; `kept` is ``[S]``."""
        return Rows(self.values[np.repeat(kept, self.lengths)], self.lengths[kept])

    def is_within(self, count: int) -> NDArray[np.bool_]:
        """Return whether each value is among the first `count` of its row, ``[Σ lengths]``."""
        starts = np.cumsum(self.lengths) - self.lengths
        position = np.arange(int(self.lengths.sum())) - np.repeat(starts, self.lengths)
        within: NDArray[np.bool_] = position < count
        return within

    def position_of(self, index: int) -> tuple[int, int]:
        """Return row and column of a position in `values`."""
        ends = np.cumsum(self.lengths)
        row = int(np.searchsorted(ends, index, side="right"))
        return row, int(index - (ends[row] - self.lengths[row]))
