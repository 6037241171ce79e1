"""Fingerprint of a fleet's desired state, to detect changes since the fleet's last heartbeat.

It has two parts, ``<orders>.<room>``: a hash of desired state, epoch, policy step, number of
workers and operator requests, and the free space of the buffer. Fleets treat it as opaque.
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
    weights_command: int = 0,
    operator_requests: Iterable[str] = (),
) -> str:
    """Return a short text that differs whenever one of the arguments does.

    `operator_requests` are the ids of operator requests, in any stable order.
    """
    numbers = map(str, (epoch, policy_step, num_workers, weights_command))
    orders = "/".join([desired, *numbers, *operator_requests]).encode()
    return f"{hashlib.blake2s(orders, digest_size=6).hexdigest()}.{admission_remaining}"
