"""Tell whether what the platform wants of a fleet has changed since the fleet last heard.

The fingerprint has two parts, ``<orders>.<room>``: a hash of desired state, epoch and policy
step, and the room left in the buffer. To a fleet it is opaque; the platform reads the parts
to know whether a change is worth waking the fleet at once.
"""

import hashlib


def fingerprint(*, desired: str, epoch: int, policy_step: int, admission_remaining: int) -> str:
    """Return a short text that differs whenever one of the arguments does."""
    orders = f"{desired}/{epoch}/{policy_step}".encode()
    return f"{hashlib.blake2s(orders, digest_size=6).hexdigest()}.{admission_remaining}"


def is_urgent(*, seen: str, current: str) -> bool:
    """Return whether a fleet that knows `seen` must hear of `current` at once.

    New orders are urgent, and so is room in a buffer that was full, or none in one that had
    some; every other change of the room may wait a moment for the next ones.
    """
    seen_orders, _, seen_room = seen.rpartition(".")
    orders, _, room = current.rpartition(".")
    return seen_orders != orders or (seen_room == "0") != (room == "0")
