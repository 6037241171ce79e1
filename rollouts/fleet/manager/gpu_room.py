"""Decide whether a GPU has the memory that a worker may count on."""

from typing import Final

EXPECTED: Final = 0.8
"""Of its share: drivers and neighbours take some, and a policy seldom takes all."""
_GB: Final = 1e9


def shortage(*, share: float, total_bytes: int, used_bytes: int) -> str:
    """Return why a worker should not start on a GPU yet; empty if it may.

    Args:
        share: Of the GPU, that the worker reserves; 1 and more: all of it.
        total_bytes: Memory of the GPU.
        used_bytes: Taken by whomever, processes included that are just ending.
    """
    wanted = min(share, 1.0) * EXPECTED * total_bytes
    free = total_bytes - used_bytes
    if free >= wanted:
        return ""
    return (
        f"{free / _GB:.1f} of {total_bytes / _GB:.1f} GB of the GPU are free, "
        f"its share is {min(share, 1.0):g}"
    )
