"""Student's t distribution and binomial intervals without a statistics library."""

import math
from statistics import NormalDist
from typing import Final

Z_95: Final = NormalDist().inv_cdf(0.95)
"""One-sided 95 %."""


def two_sided_p(t: float, *, freedom: int) -> float:
    """Return the probability that |T| exceeds ``|t|`` with `freedom` degrees of freedom.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: finite
    sums, exact for whole degrees of freedom.
    """
    theta = math.atan2(abs(t), math.sqrt(freedom))
    cosine, sine = math.cos(theta), math.sin(theta)
    squared = cosine * cosine
    is_odd = freedom % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0 if freedom == 1 else term
    # Odd: cosθ (1 + 2/3 cos²θ + 2·4/(3·5) cos⁴θ …); even: 1 + 1/2 cos²θ + 1·3/(2·4) cos⁴θ …
    for below in range(3 if is_odd else 2, freedom - 1, 2):
        term *= squared * (below - 1) / below
        total += term
    inside = 2 / math.pi * (theta + sine * total) if is_odd else sine * total
    return max(0.0, 1.0 - inside)


def wilson(successes: int, samples: int, *, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson bounds of a success rate; 0 and 1 without samples.

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209–212.
    """
    if not samples:
        return 0.0, 1.0
    rate = successes / samples
    weight = 1 + z * z / samples
    middle = (rate + z * z / (2 * samples)) / weight
    reach = z / weight * math.sqrt(rate * (1 - rate) / samples + z * z / (4 * samples * samples))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def samples_to_show(rate: float, *, z: float = Z_95) -> int:
    """Return the number of samples, all successes, with a lower bound of `rate` (below 1)."""
    return math.ceil(z * z * rate / (1 - rate))
