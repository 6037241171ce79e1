"""Policy version and staleness of groups."""

from buffer.items.rules.states import DropReason
from runs.lifecycle.rules.versions import PolicyVersion


def version_of(
    *, claimed_epoch: int | None, claimed_step: int | None, current: PolicyVersion, epoch: int
) -> PolicyVersion:
    """Return the policy version that sampled a group.

    The producer's claim is used; a step without an epoch belongs to the current epoch. Without a
    claim, the group gets the current version at the time of receipt.

    Args:
        claimed_epoch: Epoch that the group names, if any.
        claimed_step: Step that it names, if any.
        current: Version in force.
        epoch: Epoch of the run.
    """
    if claimed_step is None:
        return current
    # Before weights are published a step counts batches, unless it is of an earlier epoch.
    if claimed_epoch is None or (current.epoch == 0 and claimed_epoch >= epoch):
        return PolicyVersion(current.epoch, claimed_step)
    return PolicyVersion(claimed_epoch, claimed_step)


def drop_reason(
    sampled: PolicyVersion, *, current: PolicyVersion, epoch: int, max_staleness: int | None
) -> DropReason | None:
    """Return the reason why a group cannot train the run's policy, or None.

    Args:
        sampled: The version that sampled it.
        current: The version in force; of epoch 0 before weights are published.
        epoch: Epoch of the run.
        max_staleness: Maximum number of versions behind; None for no limit.
    """
    if 0 < sampled.epoch < epoch:
        return DropReason.STALE_EPOCH
    if sampled > current:
        return DropReason.FUTURE
    if sampled.epoch != current.epoch:
        return DropReason.STALE_EPOCH
    if max_staleness is not None and current.step - sampled.step > max_staleness:
        return DropReason.STALE_VERSION
    return None
