"""Conversion of floats to JSON, including values that JSON cannot represent."""

import math
from typing import Literal

NonFinite = Literal["NaN", "Infinity", "-Infinity"]


def written(value: float) -> float | NonFinite:
    """Return the number, or its name if JSON cannot represent it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
