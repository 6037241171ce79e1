"""Tell whether what the platform wants of a fleet has changed since the fleet last heard.

The fingerprint has two parts, ``<orders>.<room>``: a hash of desired state, epoch, policy step,
number of workers and errands, and the room left in the buffer. To a fleet it is opaque.
"""

import hashlib
from collections.abc import Iterable


def fingerprint(
    *,
    desired: str,
    epoch: int,
    policy_step: int,
    admission_remaining: int,
    num_workers: int = 0,
    weights_order: int = 0,
    errands: Iterable[str] = (),
) -> str:
    """Return a short text that differs whenever one of the arguments does.

    `errands` are the ids of what people asked for, in any order that is always the same.
    """
    numbers = map(str, (epoch, policy_step, num_workers, weights_order))
    orders = "/".join([desired, *numbers, *errands]).encode()
    return f"{hashlib.blake2s(orders, digest_size=6).hexdigest()}.{admission_remaining}"
