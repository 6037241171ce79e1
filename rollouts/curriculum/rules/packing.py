"""Binary serialization of a performance, at most 14 KiB per mode and row."""

import struct
from typing import Final

import numpy as np

from rollouts.lessons.rules.performance import Counts, Performance

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
