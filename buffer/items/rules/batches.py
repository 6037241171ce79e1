"""Ids of batches, and errors about them."""

from uuid import UUID

from web.rules.errors import NotFound


class BatchNotFound(NotFound):
    """The run has no such batch."""


def batch_id_of(text: str) -> UUID:
    """Return a batch's id.

    Raises:
        BatchNotFound: If `text` is no id.
    """
    try:
        return UUID(text)
    except ValueError:
        raise BatchNotFound(f"batch {text!r} does not exist") from None
