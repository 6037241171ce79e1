"""Derive what a task draws from numbers alone, so that it is the same whoever asks."""

import hashlib
from typing import Final

_SEED_BITS: Final = 31


def draw_point(*, seed: int, task: int) -> float:
    """Return a number in [0, 1) that says which lesson task number `task` of a run is of."""
    # A double has 53 bits: no quotient of these is rounded up to 1.
    return (_number(f"lesson/{seed}/{task}") >> 11) / (1 << 53)


def training_seed(*, seed: int, lesson: str, first_example: int) -> int:
    """Return the seed of the answers to the problems from `first_example` on, in [0, 2³¹)."""
    return _number(f"train/{seed}/{lesson}/{first_example}") >> (64 - _SEED_BITS)


def evaluation_seed(*, seed: int, lesson: str) -> int:
    """Return the seed of a lesson's evaluations, the same for ever, in [0, 2³¹)."""
    return _number(f"eval/{seed}/{lesson}") >> (64 - _SEED_BITS)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=8).digest(), "big")
