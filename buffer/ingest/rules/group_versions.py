"""Say which policy version a group is of, and whether it is still worth training on."""

from buffer.items.rules.states import DropReason
from runs.core.versions import PolicyVersion


def version_of(
    *, claimed_epoch: int | None, claimed_step: int | None, current: PolicyVersion
) -> PolicyVersion:
    """Return the version that a group was sampled by.

    What its producer says counts; a step without an epoch is of the current one. Producers that
    say nothing are taken to follow the run: their groups are of the version in force on receipt.
    """
    if claimed_step is None:
        return current
    # Without published weights there are no epochs: a step counts batches.
    if claimed_epoch is None or current.epoch == 0:
        return PolicyVersion(current.epoch, claimed_step)
    return PolicyVersion(claimed_epoch, claimed_step)


def drop_reason(
    sampled: PolicyVersion, *, current: PolicyVersion, max_staleness: int | None
) -> DropReason | None:
    """Return why a group cannot train the run's policy, or None.

    Args:
        sampled: The version that sampled it.
        current: The version in force.
        max_staleness: Versions by which it may trail; None for any.
    """
    if sampled > current:
        return DropReason.FUTURE
    if sampled.epoch != current.epoch:
        return DropReason.STALE_EPOCH
    if max_staleness is not None and current.step - sampled.step > max_staleness:
        return DropReason.STALE_VERSION
    return None
