"""Errors about batches."""


class BatchNotFound(Exception):
    """The run has no such batch."""
