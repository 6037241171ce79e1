"""Tell whether what the platform wants of a fleet has changed since the fleet last heard.

The fingerprint has two parts, ``<orders>.<room>``: a hash of desired state, epoch and policy
step, and the room left in the buffer. To a fleet it is opaque.
"""

import hashlib


def fingerprint(*, desired: str, epoch: int, policy_step: int, admission_remaining: int) -> str:
    """Return a short text that differs whenever one of the arguments does."""
    orders = f"{desired}/{epoch}/{policy_step}".encode()
    return f"{hashlib.blake2s(orders, digest_size=6).hexdigest()}.{admission_remaining}"
