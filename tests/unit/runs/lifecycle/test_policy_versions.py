import pytest

from runs.lifecycle.rules import (
    FromAnotherEpoch,
    FromTheFuture,
    PolicyVersion,
    admission_capacity,
    staleness,
    trained_steps,
    version_in_force,
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
        batches_ahead=2,
        trained=trained_steps(policy_step=policy_step, first_step=0),
        per_batch=4,
        accepted=accepted,
        running=running,
    )

    assert capacity == expected


def test_a_restored_trainer_does_not_count_steps_of_earlier_epochs() -> None:
    assert trained_steps(policy_step=500, first_step=500) == 0
    assert trained_steps(policy_step=503, first_step=500) == 3
    assert trained_steps(policy_step=-1, first_step=-1) == 0


def test_a_run_without_published_weights_counts_its_batches_as_versions() -> None:
    assert version_in_force(epoch=1, policy_step=-2, served_steps=7) == PolicyVersion(0, 7)
    assert version_in_force(epoch=2, policy_step=3, served_steps=7) == PolicyVersion(2, 3)
