"""Check that a GPU has enough free memory for a worker."""

from typing import Final

EXPECTED: Final = 0.8
"""Fraction of a worker's share that must be free: drivers and other processes use some memory, and
a policy seldom needs all of it.
"""
_GB: Final = 1e9


def shortage(*, share: float, total_bytes: int, used_bytes: int) -> str:
    """Return why a worker must not start on a GPU yet; empty if it may.

    Args:
        share: Share of the GPU that the worker reserves; 1 and more: the whole GPU.
        total_bytes: Memory of the GPU.
        used_bytes: Memory used by any process, including processes that are exiting.
    """
    required = min(share, 1.0) * EXPECTED * total_bytes
    free = total_bytes - used_bytes
    if free >= required:
        return ""
    return (
        f"{free / _GB:.1f} of {total_bytes / _GB:.1f} GB of the GPU are free, "
        f"its share is {min(share, 1.0):g}"
    )
