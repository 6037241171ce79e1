"""Write a performance as bytes, and read it again: a row holds at most 14 KiB of each mode."""

import struct
from typing import Final

import numpy as np

from rollouts.curriculum.rules.performance import Counts, Performance

_HEAD: Final = struct.Struct("<qqII")
"""Samples, last step, rewards and batches that follow."""
_COUNTS: Final = 3


def pack(performance: Performance) -> bytes:
    """Return a performance as bytes, to the last bit: float64 rewards, int64 counts."""
    head = _HEAD.pack(
        performance.samples,
        performance.last_step,
        len(performance.rewards),
        len(performance.batches),
    )
    rewards = np.asarray(performance.rewards, dtype="<f8").tobytes()
    return head + rewards + np.asarray(performance.batches, dtype="<i8").tobytes()


def unpack(content: bytes | memoryview) -> Performance:
    """Return the performance that `content` describes; none at all if it is empty."""
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
