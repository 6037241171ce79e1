"""Summaries of a batch: figures for display, and an outcome for the curriculum."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from rolldeck.lessons import METRIC_NAME, MOST_METRICS, LessonOutcome
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.groups.batches import Draw, RolloutBatch
from rollouts.fleet.groups.group_statistics import Group, GroupStatistics, describe_groups

ENVIRONMENT: Final = "env."
"""Prefix of an environment's metrics among the figures of a batch."""
MOST_VALUE: Final = 1e30


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


def environment_metrics(metrics: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return the metrics that the platform can store, and a problem for each other one.

    Args:
        metrics: Values that an environment returned, by name.
    """
    found: dict[str, float] = {}
    problems: list[str] = []
    for name, value in metrics.items():
        problem = _metric_problem(name, value)
        if not problem and len(found) >= MOST_METRICS:
            problem = f"more than {MOST_METRICS} metrics"
        if problem:
            problems.append(f"metric {name!r}: {problem}")
        else:
            found[name] = float(value)
    return found, problems


def _metric_problem(name: object, value: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(METRIC_NAME, name):
        return "the name must have 1 to 40 letters, digits, _ . / - or spaces"
    try:
        number = float(value)
    except (TypeError, ValueError):
        return f"{type(value).__name__} is not a number"
    if not math.isfinite(number) or abs(number) > MOST_VALUE:
        return f"{number} is not a finite number up to {MOST_VALUE:g}"
    return ""


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
    stops: bool = False,
    metrics: Mapping[str, float] | None = None,
) -> LessonOutcome:
    """Return the outcome for the curriculum; without a batch, `error` is the reason.

    Of `metrics`, the figures of the batch, it contains those of the environment.
    """
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
        stops=stops,
        samples=batch.samples if batch else [],
        metrics={
            name.removeprefix(ENVIRONMENT): value
            for name, value in (metrics or {}).items()
            if name.startswith(ENVIRONMENT)
        },
    )
