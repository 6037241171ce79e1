"""A group gets the version claimed by its producer, else the current one on arrival."""

import pytest

from buffer.ingest.rules.group_versions import drop_reason, version_of
from buffer.items.rules.states import DropReason
from runs.lifecycle.rules.versions import PolicyVersion

CURRENT = PolicyVersion(2, 5)


def test_a_group_without_a_version_has_the_current_one() -> None:
    assert version_of(claimed_epoch=None, claimed_step=None, current=CURRENT) == CURRENT
    assert version_of(claimed_epoch=1, claimed_step=None, current=CURRENT) == CURRENT


def test_a_step_without_an_epoch_is_of_the_current_one() -> None:
    assert version_of(claimed_epoch=None, claimed_step=3, current=CURRENT) == PolicyVersion(2, 3)
    assert version_of(claimed_epoch=1, claimed_step=3, current=CURRENT) == PolicyVersion(1, 3)


def test_without_published_weights_a_step_counts_batches() -> None:
    current = PolicyVersion(0, 7)
    assert version_of(claimed_epoch=4, claimed_step=3, current=current) == PolicyVersion(0, 3)


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
    assert drop_reason(sampled, current=CURRENT, max_staleness=limit) is reason
