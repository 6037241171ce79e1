"""Messages about tokenizers."""

from datetime import datetime

from msgspec import Struct


class RunTokenizerRow(Struct, frozen=True, kw_only=True):
    """The tokenizer of a run."""

    sha256: str
    """SHA-256 of its `tokenizer.json`."""
    size_bytes: int
    tokens: int
    """Number of its tokens."""
    set_by: str
    set_at: datetime
