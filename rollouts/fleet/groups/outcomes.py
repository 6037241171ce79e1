"""Summaries of a batch: figures for display, and an outcome for the curriculum."""

from typing import Literal, NamedTuple

from rolldeck.lessons import LessonOutcome
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.batches import Draw, RolloutBatch
from rollouts.fleet.groups.group_statistics import Group, GroupStatistics, describe_groups


class Lease(NamedTuple):
    """The right to evaluate a lesson."""

    evaluation: str
    fence: int


def statistics_of(batch: RolloutBatch) -> GroupStatistics:
    """Return the group statistics of a batch."""
    return describe_groups(
        Group(
            rewards=group.rewards,
            lengths=[rollout.own_tokens for rollout in group.rollouts],
            truncated=[rollout.is_truncated for rollout in group.rollouts],
            answers=[rollout.response for rollout in group.rollouts],
        )
        for group in batch.groups
    )


def figures_of(batch: RolloutBatch) -> dict[str, float]:
    """Return the figures of a batch by name."""
    found = statistics_of(batch)
    successes = [rollout.is_correct for rollout in batch.rollouts]
    return {
        "reward_mean": found.reward_mean,
        "reward_deviation": found.reward_deviation,
        "success_rate": sum(successes) / len(successes),
        "zero_variance_groups": float(found.zero_variance_groups),
        "tokens": float(found.tokens),
        "tokens_per_second": found.tokens / max(batch.seconds, 1e-6),
        "length_mean": found.length_mean,
        "length_p95": found.length_p95,
        "truncated_share": found.truncated_share,
        "duplicate_share": found.duplicate_share,
    }


def outcome_of(
    batch: RolloutBatch | None,
    *,
    lesson: str,
    mode: Literal["train", "eval", "micro_eval"],
    worker_id: str,
    policy_version: Version,
    draw: Draw,
    generations: int,
    lease: Lease | None = None,
    error: str = "",
) -> LessonOutcome:
    """Return the outcome for the curriculum; without a batch, `error` is the reason."""
    found = statistics_of(batch) if batch else None
    rollouts = batch.rollouts if batch else []
    epoch, step = policy_version
    return LessonOutcome(
        key=f"{worker_id}/{lesson}/{mode}/{epoch}.{step}/{draw.seed}/{draw.first_example}"[:200],
        worker=worker_id,
        mode=mode,
        epoch=epoch,
        policy_step=step,
        generations=generations,
        rewards=[rollout.reward for rollout in rollouts],
        successes=[rollout.is_correct for rollout in rollouts],
        tokens=found.tokens if found else 0,
        truncated=found.truncated if found else 0,
        zero_variance_groups=found.zero_variance_groups if found else 0,
        duplicates=found.duplicates if found else 0,
        seconds=batch.seconds if batch else 0.0,
        evaluation=lease.evaluation if lease else "",
        fence=lease.fence if lease else 0,
        error=error[:2000],
        samples=batch.samples if batch else [],
    )
