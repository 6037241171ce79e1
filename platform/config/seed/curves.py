"""Curves of a training run: smooth, with a few spikes."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]
RATE: Final = 3e-4


def ppo_metrics(random: np.random.Generator, steps: int) -> dict[str, Curve]:
    """Return the metrics of `examples/ppo_cartpole.py`, ``[steps]`` by name, with two spikes."""
    done = np.linspace(0, 1, steps)
    value_loss = _noisy(random, 60 * np.exp(-4 * done) + 3, 0.12)
    kl = _noisy(random, 0.006 + 0.004 * np.sin(9 * done), 0.3)
    spikes = [int(steps * part) for part in (0.37, 0.81)]
    _spike(value_loss, spikes, 14.0)
    _spike(kl, spikes, 6.0)
    return {
        "policy_loss": random.normal(-0.012, 0.006, steps),
        "value_loss": value_loss,
        "entropy": _noisy(random, 0.69 - 0.45 * done, 0.03),
        "kl": kl,
        "explained_variance": np.clip(
            0.97 - np.exp(-5 * done) + random.normal(0, 0.03, steps), -1, 1
        ),
        "importance_weight": random.normal(1.0, 0.004, steps),
        "learning_rate": RATE * (1 - 0.9 * done),
        "staleness": random.choice([0.0, 0.5, 1.0], steps, p=[0.2, 0.5, 0.3]),
        "staleness_max": random.choice([1.0, 2.0], steps, p=[0.9, 0.1]),
    }


def grpo_metrics(random: np.random.Generator, steps: int) -> dict[str, Curve]:
    """Return the metrics of `examples/grpo.py`, ``[steps]`` by name, with one spike."""
    done = np.linspace(0, 1, steps)
    loss = random.normal(0.0, 0.02, steps)
    _spike(loss, [int(steps * 0.58)], 4.0)
    return {
        "reward_mean": np.clip(0.15 + 0.7 * done**0.6 + random.normal(0, 0.05, steps), 0, 1),
        "answer_tokens": _noisy(random, 5 + 3 * done, 0.05),
        "groups": np.full(steps, 16.0),
        "zero_variance_groups": random.poisson(1 + 4 * done, steps).astype(float),
        "loss": loss,
        "entropy": _noisy(random, 2.4 * np.exp(-2 * done) + 0.2, 0.05),
        "ratio_clipped": np.clip(random.normal(0.03, 0.01, steps), 0, 1),
        "mismatch_kl": _noisy(random, np.full(steps, 0.0011), 0.2),
        "gradient_norm": _noisy(random, 0.9 - 0.4 * done, 0.2),
    }


def returns(
    random: np.random.Generator, windows: int, *, best: float, speed: float = 5.0
) -> Iterable[Curve]:
    """Yield the episode returns of each window; they rise to `best`, with one drop."""
    for window in range(windows):
        done = window / max(windows - 1, 1)
        mean = best * (0.05 + 0.95 / (1 + np.exp(-speed * 2 * (done - 0.35))))
        if 0.68 < done < 0.74:
            mean *= 0.55
        count = int(random.integers(6, 14))
        yield np.clip(random.normal(mean, 0.12 * best, count), 8, best).round(1)


def _noisy(random: np.random.Generator, curve: Curve, part: float) -> Curve:
    return curve * np.exp(random.normal(0, part, len(curve)))


def _spike(curve: Curve, places: Iterable[int], factor: float) -> None:
    """Multiply the curve at some places, with a decay over three steps."""
    for place in places:
        for late in range(4):
            if place + late < len(curve):
                curve[place + late] *= 1 + (factor - 1) * 0.4**late
