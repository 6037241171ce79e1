"""Policy version and staleness of arriving items."""

from buffer.items.rules.states import DropReason
from runs.lifecycle.rules import PolicyVersion


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
    oldest: PolicyVersion,
    newest: PolicyVersion,
    *,
    current: PolicyVersion,
    epoch: int,
    max_staleness: int | None,
) -> DropReason | None:
    """Return the reason why a group or fragment cannot train the run's policy, or None.

    Args:
        oldest: The oldest version that sampled a part of it.
        newest: The newest version that sampled a part of it.
        current: The version in force; of epoch 0 before weights are published.
        epoch: Epoch of the run.
        max_staleness: Maximum number of versions behind; None for no limit.
    """
    if 0 < newest.epoch < epoch:
        return DropReason.STALE_EPOCH
    if newest > current:
        return DropReason.FUTURE
    if oldest.epoch != current.epoch:
        return DropReason.STALE_EPOCH
    if max_staleness is not None and current.step - oldest.step > max_staleness:
        return DropReason.STALE_VERSION
    return None
