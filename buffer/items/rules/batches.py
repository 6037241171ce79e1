"""Errors about batches."""

from web.rules.errors import NotFound


class BatchNotFound(NotFound):
    """The run has no such batch."""
