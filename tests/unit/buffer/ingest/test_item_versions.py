"""A group gets the version claimed by its producer, else the current one on arrival."""

import pytest

from buffer.ingest.rules.arrivals import drop_reason, version_of
from buffer.items.rules.states import DropReason
from runs.lifecycle.rules import PolicyVersion

CURRENT = PolicyVersion(2, 5)
UNPUBLISHED = PolicyVersion(0, 7)


@pytest.mark.parametrize(
    ("epoch", "step", "current", "version"),
    [
        (None, None, CURRENT, CURRENT),
        (1, None, CURRENT, CURRENT),
        (None, 3, CURRENT, PolicyVersion(2, 3)),
        (1, 3, CURRENT, PolicyVersion(1, 3)),
        (None, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (2, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (4, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (1, 3, UNPUBLISHED, PolicyVersion(1, 3)),
    ],
    ids=[
        "no version: the current one",
        "an epoch without a step: the current one",
        "a step: of the current epoch",
        "an earlier epoch",
        "before weights a step counts batches",
        "before weights, of this epoch",
        "before weights, of a later epoch",
        "before weights, of an earlier trainer session",
    ],
)
def test_the_version_of_a_group_by_its_claim(
    epoch: int | None, step: int | None, current: PolicyVersion, version: PolicyVersion
) -> None:
    found = version_of(claimed_epoch=epoch, claimed_step=step, current=current, epoch=2)
    assert found == version


@pytest.mark.parametrize(
    ("sampled", "limit", "reason"),
    [
        (PolicyVersion(2, 5), 0, None),
        (PolicyVersion(2, 4), 1, None),
        (PolicyVersion(2, 3), 1, DropReason.STALE_VERSION),
        (PolicyVersion(2, 0), None, None),
        (PolicyVersion(2, 6), None, DropReason.FUTURE),
        (PolicyVersion(3, 0), None, DropReason.FUTURE),
        (PolicyVersion(1, 9), None, DropReason.STALE_EPOCH),
    ],
)
def test_groups_of_unusable_versions_are_dropped_with_a_reason(
    sampled: PolicyVersion, limit: int | None, reason: DropReason | None
) -> None:
    assert drop_reason(sampled, sampled, current=CURRENT, epoch=2, max_staleness=limit) is reason


def test_before_weights_only_groups_of_earlier_epochs_are_stale() -> None:
    def reason(sampled: PolicyVersion) -> DropReason | None:
        return drop_reason(sampled, sampled, current=UNPUBLISHED, epoch=2, max_staleness=None)

    assert reason(PolicyVersion(1, 0)) is DropReason.STALE_EPOCH
    assert reason(PolicyVersion(0, 7)) is None
