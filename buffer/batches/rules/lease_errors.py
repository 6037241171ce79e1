"""Refusals of requests for batches and of their acknowledgements."""

from web.rules.errors import Conflict


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
