"""Constants and figures of an environment's groups."""

from typing import Final

NO_ENVIRONMENT: Final = -1
"""Groups that were pushed without an environment are one further environment of weight 1."""


def padded_share(*, tokens: int, sequences: int, longest_tokens: int) -> float | None:
    """Return which part of ``[sequences, longest_tokens]`` holds no token; None without any."""
    positions = sequences * longest_tokens
    return 1.0 - tokens / positions if positions else None
