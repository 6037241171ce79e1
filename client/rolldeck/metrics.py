"""Metrics of a run in the form of the API."""

import math
from collections.abc import Mapping

from rolldeck.http import Call


def metrics_call(path: str, metrics: Mapping[str, float], *, step: int) -> Call:
    """Return the request that stores one value per name.

    Args:
        path: Route of the run's metrics.
        metrics: Numbers; one that is not finite becomes a counted gap in its chart.
        step: Train step.
    """
    samples = [
        {"name": name, "step": step, "value": _written(float(value))}
        for name, value in metrics.items()
    ]
    return Call(method="POST", path=path, json={"samples": samples})


def _written(value: float) -> float | str:
    """Return the number, or its name if JSON cannot represent it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
