"""Constants and figures of an environment's groups."""

from typing import Final

NO_ENVIRONMENT: Final = -1
"""Id of the virtual environment, of weight 1, that holds groups without an environment."""


def padded_share(*, tokens: int, sequences: int, longest_tokens: int) -> float | None:
    """Return the padded fraction of ``[sequences, longest_tokens]``; None if that is empty."""
    positions = sequences * longest_tokens
    return 1.0 - tokens / positions if positions else None
