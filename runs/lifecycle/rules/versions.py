"""Order the policy versions of a run and measure how far apart they are.

Train step n (from 1) consumes data and updates policy version n − 1; publishing makes
version n. A trainer publishes the weights it starts with as version 0. A restored trainer
opens a new epoch, so going back to an older step is legal and unambiguous.
"""

from dataclasses import dataclass
from typing import Final

NO_POLICY_STEP: Final = -2
"""No weights published yet: do not generate."""
BOOTSTRAP_STEP: Final = -1
"""The initial weights of a run, before any training."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyVersion:
    """One set of published weights, ordered by epoch, then by step."""

    epoch: int
    step: int


class FromTheFuture(ValueError):
    """The data claims a version that its run has not published yet."""


class FromAnotherEpoch(ValueError):
    """The data was sampled in another epoch."""


def staleness(*, sampled: PolicyVersion, current: PolicyVersion) -> int:
    """Return how many versions were published since the data was sampled.

    Raises:
        FromAnotherEpoch: If the two versions belong to different epochs.
        FromTheFuture: If `sampled` is newer than `current`.
    """
    if sampled.epoch != current.epoch:
        raise FromAnotherEpoch(f"epoch {sampled.epoch}, the run is in epoch {current.epoch}")
    if sampled.step > current.step:
        raise FromTheFuture(f"version {sampled.step}, the run is at version {current.step}")
    return current.step - sampled.step


def version_in_force(*, epoch: int, policy_step: int, served_steps: int) -> PolicyVersion:
    """Return the version assigned to data sampled now.

    A run whose trainer publishes no weights counts served batches instead: its versions belong to
    epoch 0, which no trainer opens.
    """
    if policy_step > NO_POLICY_STEP:
        return PolicyVersion(epoch, policy_step)
    return PolicyVersion(0, served_steps)


def trained_steps(*, policy_step: int, first_step: int) -> int:
    """Return how many train steps of this epoch are published.

    A trainer restored at step 500 has not consumed 500 batches of its new epoch. Counting from
    zero would admit 500 extra batches, and staleness would far exceed its limit.

    Args:
        policy_step: Current version's step; negative values count as 0.
        first_step: Step of the first version published in this epoch.
    """
    return max(0, max(policy_step, 0) - max(first_step, 0))


def batches_ahead(*, max_staleness: int | None, off_policy_tolerance: float) -> float:
    """Return the number of batches that may exist beyond those trained."""
    return off_policy_tolerance if max_staleness is None else max_staleness + 1


def admission_capacity(
    *, batches_ahead: float, trained: int, per_batch: int, accepted: int, running: int
) -> int:
    """Return how many more items may start without exceeding the staleness limit.

    Args:
        batches_ahead: As :func:`batches_ahead` returns it.
        trained: Train steps of this epoch, as :func:`trained_steps` counts them.
        per_batch: Items one train step consumes.
        accepted: Items accepted in this epoch, without those dropped.
        running: Items started and not yet accepted.

    Source:
        AReaL, Fu et al. 2025, arXiv:2505.24298, section 5.1 (staleness-aware training):
        ``(max_staleness + version + 1) · batch − accepted − running``.
    """
    ceiling = int((batches_ahead + trained) * per_batch)
    return max(0, ceiling - accepted - running)
