import pytest

from runs.core.versions import (
    FromAnotherEpoch,
    FromTheFuture,
    PolicyVersion,
    admission_capacity,
    staleness,
)


def test_versions_are_ordered_by_epoch_before_step() -> None:
    assert PolicyVersion(1, 99) < PolicyVersion(2, 0) < PolicyVersion(2, 1)


def test_staleness_counts_versions_published_since() -> None:
    assert staleness(sampled=PolicyVersion(1, 3), current=PolicyVersion(1, 5)) == 2
    assert staleness(sampled=PolicyVersion(1, 5), current=PolicyVersion(1, 5)) == 0


def test_data_from_the_future_has_no_staleness() -> None:
    with pytest.raises(FromTheFuture, match="version 6"):
        staleness(sampled=PolicyVersion(1, 6), current=PolicyVersion(1, 5))


def test_data_of_another_epoch_has_no_staleness() -> None:
    with pytest.raises(FromAnotherEpoch, match="epoch 1"):
        staleness(sampled=PolicyVersion(1, 5), current=PolicyVersion(2, 5))


@pytest.mark.parametrize(
    ("policy_step", "accepted", "running", "expected"),
    [(-2, 0, 0, 8), (0, 0, 0, 8), (1, 8, 0, 4), (1, 8, 3, 1), (1, 12, 0, 0), (1, 40, 0, 0)],
)
def test_capacity_follows_the_formula_and_is_never_negative(
    policy_step: int, accepted: int, running: int, expected: int
) -> None:
    capacity = admission_capacity(
        max_staleness=1, policy_step=policy_step, per_batch=4, accepted=accepted, running=running
    )

    assert capacity == expected
