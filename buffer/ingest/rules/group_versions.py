"""Policy version and staleness of groups."""

from buffer.items.rules.states import DropReason
from runs.lifecycle.rules.versions import PolicyVersion


def version_of(
    *, claimed_epoch: int | None, claimed_step: int | None, current: PolicyVersion
) -> PolicyVersion:
    """Return the policy version that sampled a group.

    The producer's claim is used; a step without an epoch belongs to the current epoch. Without a
    claim, the group gets the current version at the time of receipt.
    """
    if claimed_step is None:
        return current
    # Runs without published weights have no epochs: a step counts batches.
    if claimed_epoch is None or current.epoch == 0:
        return PolicyVersion(current.epoch, claimed_step)
    return PolicyVersion(claimed_epoch, claimed_step)


def drop_reason(
    sampled: PolicyVersion, *, current: PolicyVersion, max_staleness: int | None
) -> DropReason | None:
    """Return the reason why a group cannot train the run's policy, or None.

    Args:
        sampled: The version that sampled it.
        current: The current version.
        max_staleness: Maximum number of versions behind; None for no limit.
    """
    if sampled > current:
        return DropReason.FUTURE
    if sampled.epoch != current.epoch:
        return DropReason.STALE_EPOCH
    if max_staleness is not None and current.step - sampled.step > max_staleness:
        return DropReason.STALE_VERSION
    return None
