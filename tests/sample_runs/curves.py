"""Curves of a training run."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]


def ppo_metrics(random: np.random.Generator, steps: int) -> dict[str, Curve]:
    """Return metrics of `examples/ppo_cartpole.py`, ``[steps]`` by name; the loss has a spike."""
    done = np.linspace(0, 1, steps)
    value_loss = _noisy(random, 60 * np.exp(-4 * done) + 3, 0.12)
    value_loss[int(steps * 0.37)] *= 14
    return {
        "policy_loss": random.normal(-0.012, 0.006, steps),
        "value_loss": value_loss,
        "entropy": _noisy(random, 0.69 - 0.45 * done, 0.03),
        "kl": _noisy(random, 0.006 + 0.004 * np.sin(9 * done), 0.3),
        "explained_variance": np.clip(0.97 - np.exp(-5 * done), -1, 1),
        "learning_rate": 3e-4 * (1 - 0.9 * done),
        "staleness": random.choice([0.0, 0.5, 1.0], steps, p=[0.2, 0.5, 0.3]),
    }


def grpo_metrics(random: np.random.Generator, steps: int) -> dict[str, Curve]:
    """Return metrics of `examples/grpo.py`, ``[steps]`` by name."""
    done = np.linspace(0, 1, steps)
    return {
        "reward_mean": np.clip(0.15 + 0.7 * done**0.6 + random.normal(0, 0.05, steps), 0, 1),
        "zero_variance_groups": random.poisson(1 + 4 * done, steps).astype(float),
        "loss": random.normal(0.0, 0.02, steps),
        "entropy": _noisy(random, 2.4 * np.exp(-2 * done) + 0.2, 0.05),
        "mismatch_kl": _noisy(random, np.full(steps, 0.0011), 0.2),
    }


def returns(random: np.random.Generator, windows: int, *, best: float) -> Iterable[Curve]:
    """Yield the episode returns of each window; they rise to `best`."""
    for window in range(windows):
        done = window / max(windows - 1, 1)
        mean = best * (0.05 + 0.95 / (1 + np.exp(-10 * (done - 0.35))))
        count = int(random.integers(6, 14))
        yield np.clip(random.normal(mean, 0.12 * best, count), 8, best).round(1)


def _noisy(random: np.random.Generator, curve: Curve, part: float) -> Curve:
    return curve * np.exp(random.normal(0, part, len(curve)))
