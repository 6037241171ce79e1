"""Reproducible random draws of a task, derived only from numbers."""

import hashlib
from typing import Final

_SEED_BITS: Final = 31


def draw_point(*, seed: int, task: int) -> float:
    """Return a number in [0, 1) that selects the lesson of task number `task` of a run."""
    # A double has 53 bits, so none of these quotients is rounded up to 1.
    return (_number(f"lesson/{seed}/{task}") >> 11) / (1 << 53)


def training_seed(*, seed: int, lesson: str, first_example: int) -> int:
    """Return the seed of the answers to the problems from `first_example` on, in [0, 2³¹)."""
    return _number(f"train/{seed}/{lesson}/{first_example}") >> (64 - _SEED_BITS)


def evaluation_seed(*, seed: int, lesson: str) -> int:
    """Return the constant seed of a lesson's evaluations, in [0, 2³¹)."""
    return _number(f"eval/{seed}/{lesson}") >> (64 - _SEED_BITS)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=8).digest(), "big")
