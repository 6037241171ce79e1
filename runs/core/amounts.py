"""Write amounts the way every page, sentence and log of the deck shows them."""

import math


def percent(part: float, *, digits: int = 0) -> str:
    """Return a part of the whole in percent, a space before the sign: 0.714 is ``71 %``.

    Halves are rounded up, as the dashboard's own `percent` does.
    """
    scale = 10**digits
    return f"{math.floor(100 * part * scale + 0.5) / scale:.{digits}f} %"


def duration(seconds: float) -> str:
    """Return a time in the unit in which people say it: ``40 s``, ``35 min``, ``5 h``, ``3 d``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
