"""Metrics of a run in the form of the API."""

import math
from collections.abc import Mapping
from typing import Any

from rolldeck.http import Call


def metrics_call(path: str, metrics: Mapping[str, float], *, step: int) -> Call:
    """Return the request that stores one value per name.

    Args:
        path: Route of the run's metrics.
        metrics: Numbers; one that is not finite becomes a counted gap in its chart.
        step: Train step.

    Raises:
        ValueError: If a value is no number; the message has its name.
    """
    samples = [
        {"name": name, "step": step, "value": _written(value)}
        for name, value in numbers(metrics).items()
    ]
    return Call(method="POST", path=path, json={"samples": samples})


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics as floats: of numbers, booleans, and arrays and tensors of one element.

    Raises:
        ValueError: If a value is no number; the message has its name.
    """
    found = {}
    for name, value in metrics.items():
        try:
            number = None if isinstance(value, str | bytes) else float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            number = None
        if number is None:
            raise ValueError(f"metric {name!r} must be a number, not {value!r:.80}")
        found[name] = number
    return found


def _written(value: float) -> float | str:
    """Return the number, or its name if JSON cannot represent it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
