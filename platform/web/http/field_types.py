"""Field types that requests of all apps share."""

from typing import Annotated

from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[a-zA-Z0-9_-]+$")]
"""Name of a run or preset, as part of a URL."""
Reason = Annotated[str, Meta(max_length=2000)]
"""Reason of a change, for the audit log."""
