"""Bounds of what comes in, in one place.

Each bound exists to keep memory, disk or training safe, and is checked before anything of that
size is built. A refusal names its bound as `GET /api/limits` does.
"""

from dataclasses import dataclass, fields
from typing import Final

MAX_TOKEN_ID: Final = 2**31 - 1
"""Fixed: token rows travel and train as int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What this deck takes in, by default; every number is the largest that passes."""

    body_bytes: int = 32 * 1024**2
    """Of a request as it arrives, unless it carries weights."""
    decompressed_bytes: int = 256 * 1024**2
    """Of a request body after decompression."""
    decompression_ratio: int = 100
    """Bytes that may come out of one byte of a compressed body of more than 1 MiB."""
    weights_bytes: int = 16 * 1024**3
    """Of one weights file."""
    header_bytes: int = 64 * 1024
    """Of a request's first line and headers together."""
    header_seconds: int = 10
    """From the first byte of a request, or the opening of its connection, to the end of headers."""
    idle_seconds: int = 30
    """Between two pieces of a request body."""
    wait_seconds: int = 60
    """That a request waits for a batch; who asks for more is answered then."""
    json_depth: int = 32
    """Containers inside one another."""
    json_values: int = 1_000_000
    """In a body of the REST API."""
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
    """Groups that wait or are leased in one run."""
    queued_fragments: int = 1_000_000
    """Fragments that wait or are leased in one run."""
    run_bytes: int = 256 * 1024**3
    """Of all that waits or is leased in one run."""

    @classmethod
    def read_from(cls, settings: object) -> "Limits":
        """Return the bounds that `settings` holds as ``ROLLDECK_MAX_<NAME>``."""
        return cls(**{f.name: getattr(settings, f"ROLLDECK_MAX_{f.name.upper()}") for f in _FIELDS})


DEFAULTS: Final = Limits()
_FIELDS: Final = fields(Limits)
