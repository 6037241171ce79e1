"""Write numbers as JSON can say them, and read them back."""

import math
from typing import Literal

NonFinite = Literal["NaN", "Infinity", "-Infinity"]


def written(value: float) -> float | NonFinite:
    """Return the number, or its name where JSON has no sign for it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
