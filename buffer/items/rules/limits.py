"""Limits on incoming data.

Each limit protects memory, disk or training, and is checked before anything of that size is
built. Errors name the limit as `GET /api/v1/limits` does.
"""

from dataclasses import dataclass, fields
from typing import Final

MAX_TOKEN_ID: Final = 2**31 - 1
"""Fixed: token rows are transferred and trained on as int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the server and their defaults; every number is the largest accepted value."""

    body_bytes: int = 32 * 1024**2
    """Size of a request body as received, except for weights."""
    decompressed_bytes: int = 256 * 1024**2
    """Size of a request body after decompression."""
    decompression_ratio: int = 100
    """Decompressed bytes per compressed byte, for bodies that expand to more than 1 MiB."""
    weights_bytes: int = 16 * 1024**3
    """Size of one weights file."""
    header_bytes: int = 64 * 1024
    """Size of the request line and headers together."""
    header_seconds: int = 10
    """Time from the first byte of a request, or its connection, to the end of its headers."""
    idle_seconds: int = 30
    """Time between two parts of a request body."""
    wait_seconds: int = 60
    """Longest wait of a request for a batch; longer waits are cut to this."""
    json_depth: int = 32
    """Levels of nested containers."""
    json_values: int = 1_000_000
    """JSON values in a body of the REST API."""
    groups_per_push: int = 1024
    """Trajectory groups in one request."""
    sequences_per_group: int = 1024
    """Token rows of one group."""
    tokens_per_sequence: int = 1_000_000
    """Tokens of one row."""
    tokens_per_group: int = 2_000_000
    """Tokens of all rows of one group."""
    values_per_group: int = 10_000_000
    """JSON values in one group: tokens, masks, log-probabilities and all others together."""
    queued_groups: int = 1_000_000
    """Queued, waiting and leased groups of one run."""
    queued_fragments: int = 1_000_000
    """Queued, waiting and leased fragments of one run."""
    run_bytes: int = 256 * 1024**3
    """Size of all queued, waiting and leased items of one run."""

    @classmethod
    def read_from(cls, settings: object) -> "Limits":
        """Return the limits from the settings ``ROLLDECK_MAX_<NAME>``."""
        return cls(**{f.name: getattr(settings, f"ROLLDECK_MAX_{f.name.upper()}") for f in _FIELDS})


DEFAULTS: Final = Limits()
_FIELDS: Final = fields(Limits)
