"""Parse numbers, and format percentages and durations as pages, messages and logs show them."""

import math


def percent(part: float, *, digits: int = 0) -> str:
    """Format a fraction in percent with a space before the sign: 0.714 is ``71 %``.

    Halves are rounded up, like `percent` in the dashboard.
    """
    scale = 10**digits
    return f"{math.floor(100 * part * scale + 0.5) / scale:.{digits}f} %"


def duration(seconds: float) -> str:
    """Format a duration in a readable unit: ``40 s``, ``35 min``, ``5 h``, ``3 d``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def finite_number(text: str) -> float | None:
    """Return the number that a text states; None if it states none, or no finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def finite_or_none(value: float) -> float | None:
    """Return a number, or None for NaN and infinity, which JSON cannot hold."""
    return value if math.isfinite(value) else None
