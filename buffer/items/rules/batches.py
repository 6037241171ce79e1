"""Ids of batches, and refusals of requests for them and of their acknowledgements."""

from uuid import UUID

from web.rules.errors import Conflict, NotFound


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


class TrainerNotRegistered(Conflict):
    """The requester is not registered as a trainer of the run."""

    code = "trainer_not_registered"
    title = "Register first"


class LeaseLost(Conflict):
    """The batch has been leased again or settled since this trainer leased it."""

    code = "lease_lost"
    title = "The lease is lost"


class OutOfOrder(Conflict):
    """The trainer still holds a batch that it received earlier."""

    code = "out_of_order"
    title = "An earlier batch is not acknowledged"
