"""Factors and performance of lessons, without Django.

Manual overrides of a curriculum: holds and sampling factors.

A hold overrides the strategy while it lasts. A factor changes how often a lesson is drawn relative
to the others. Probabilities still sum to 1: a gain of one lesson reduces the others in the
proportions set by the strategy.
"""

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np

from rollouts.lessons.rules.lessons import Counts, Performance

# Binary serialization of a performance, at most 14 KiB per mode and row.

_HEAD: Final = struct.Struct("<qqII")
"""Header: number of samples, last step, and the number of rewards and batches that follow."""
_COUNTS: Final = 3


def pack(performance: Performance) -> bytes:
    """Return a performance as bytes, without loss: float64 rewards, int64 counts."""
    head = _HEAD.pack(
        performance.samples,
        performance.last_step,
        len(performance.rewards),
        len(performance.batches),
    )
    rewards = np.asarray(performance.rewards, dtype="<f8").tobytes()
    return head + rewards + np.asarray(performance.batches, dtype="<i8").tobytes()


def unpack(content: bytes | memoryview) -> Performance:
    """Return the performance in `content`; an empty one if there are no bytes."""
    if not len(content):
        return Performance()
    samples, last_step, rewards, batches = _HEAD.unpack_from(content)
    values = np.frombuffer(content, "<f8", rewards, _HEAD.size)
    counts = np.frombuffer(content, "<i8", batches * _COUNTS, _HEAD.size + values.nbytes)
    return Performance(
        samples=samples,
        last_step=last_step,
        rewards=tuple(values.tolist()),
        batches=tuple(Counts(*row) for row in counts.reshape(batches, _COUNTS).tolist()),
    )


LEAST_FACTOR: Final = 0.01
"""Smallest factor; to stop a lesson, lock it."""
MOST_FACTOR: Final = 100.0


def reweighted(shares: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities with some lessons drawn `factors` times as often.

    Args:
        shares: Probability of each drawn lesson under the strategy; they sum to 1.
        factors: `LEAST_FACTOR` to `MOST_FACTOR`; 1 for missing lessons.

    Returns:
        Probabilities of the same lessons: p·f of each divided by the sum of all p·f.
    """
    if all(factors.get(name, 1.0) == 1.0 for name in shares):
        return dict(shares)
    scaled = {name: share * factors.get(name, 1.0) for name, share in shares.items()}
    whole = sum(scaled.values())
    return {name: share / whole for name, share in scaled.items()}
