"""Built-in metrics of a run between two measurements, listed in docs/explanation/metrics.md.

A metric without a value is None, and is not stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from buffer.batches.queries.flows import (
    BatchFlow,
    FlowCursor,
    GroupFlow,
    batch_flow,
    cut_flow,
    group_flow,
)
from buffer.batches.queries.queues import pause_rule
from buffer.batches.queries.trainer_pace import trainer_wait_share
from rollouts.control.rules.info_totals import info_figures
from rollouts.metrics.models.metrics import MeasureCursor
from rollouts.metrics.queries.flows import EpisodeFlow, episode_flow, fleet_wait_share
from rollouts.metrics.rules.measures import at_rank
from runs.lifecycle.models.runs import Run, RunKind

Found = Mapping[str, float | None]
"""Values by metric name, without the platform's prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """Changes of a run since the last measurement."""

    run: Run
    before: MeasureCursor
    counts: Mapping[str, int]
    """Present values; those of `before` are the last measured ones."""
    groups: GroupFlow
    digested: tuple[FlowCursor, float | None]
    """Id of the last digested group, and the share of truncated sequences."""
    batches: BatchFlow
    episodes: EpisodeFlow
    info_totals: Mapping[str, Any]
    """Sums of numeric values of `info`, of a fleet; empty without one."""

    @classmethod
    def at(cls, run: Run, before: MeasureCursor, counts: Mapping[str, int]) -> "RunChanges":
        """Read the changes of a run."""
        group = FlowCursor(before.group_written_in, before.group)
        digest = FlowCursor(before.digest_written_in, before.digest)
        return cls(
            run=run,
            before=before,
            counts=counts,
            groups=group_flow(run.pk, after=group),
            digested=cut_flow(run.pk, after=digest),
            batches=batch_flow(run.pk, after=before.batch),
            episodes=episode_flow(run.pk, after=before.episode_window),
            info_totals=run.fleet.info_totals if run.has_fleet and hasattr(run, "fleet") else {},
        )

    @property
    def first_at(self) -> datetime | None:
        """Time at which the first new item arrived or was served."""
        times = (self.groups.first_at, self.batches.first_at)
        return min((at for at in times if at is not None), default=None)


def levels(run_changes: RunChanges) -> Found:
    """Return instantaneous values, and values over all new data regardless of the interval."""
    rule = pause_rule(run_changes.run)
    staleness = run_changes.batches.staleness
    return {
        "queue/depth": run_changes.counts["queued"],
        "queue/threshold": rule.pause_above if rule else None,
        "staleness/p50": at_rank(staleness, 0.5),
        "staleness/p95": at_rank(staleness, 0.95),
        **(
            _of_groups(run_changes)
            if run_changes.run.takes_groups
            else _of_episodes(run_changes.episodes)
        ),
        **info_figures(run_changes.before.info_totals, run_changes.info_totals),
    }


def _of_episodes(episodes: EpisodeFlow) -> Found:
    return {
        **_rewards(episodes.return_mean, episodes.return_percentiles),
        "length/mean": episodes.mean_length,
        "length/max": episodes.longest,
        "truncated_share": episodes.truncated_share,
    }


def _of_groups(run_changes: RunChanges) -> Found:
    groups, episodes = run_changes.groups, run_changes.episodes
    # A worker of a language run reports the length of answers; for others, prompts count too.
    is_language = run_changes.run.kind == RunKind.LANGUAGE
    dropped = run_changes.counts["without_variance"] - run_changes.before.without_variance
    seen = groups.groups + dropped
    return {
        **_rewards(groups.score_mean, groups.score_percentiles),
        "length/mean": episodes.mean_length if is_language else groups.mean_tokens,
        "length/max": episodes.longest if is_language else groups.longest_tokens,
        "truncated_share": run_changes.digested[1],
        "zero_variance_share": (groups.without_variance + dropped) / seen if seen else None,
    }


def _rewards(mean: float | None, percentiles: Sequence[float] | None) -> Found:
    names = ("reward/p10", "reward/p50", "reward/p90")
    return {"reward/mean": mean, **dict(zip(names, percentiles or (), strict=False))}


def rates(run_changes: RunChanges, *, amount: int, seconds: float) -> dict[str, float]:
    """Return the rates at which data arrived and was served.

    Args:
        run_changes: Changes since the last measurement.
        amount: Present number of served tokens, or of env steps.
        seconds: Length of the interval, above 0.
    """
    work = "tokens_per_second" if run_changes.run.takes_groups else "env_steps_per_second"
    return {
        "accepted_per_second": (run_changes.counts["accepted"] - run_changes.before.accepted)
        / seconds,
        "served_per_second": run_changes.batches.items / seconds,
        work: (amount - run_changes.before.amount) / seconds,
    }


def waits(run: Run, *, since: datetime, now: datetime) -> Found:
    """Return the share of the time that trainers waited for data, and workers for free space."""
    return {
        "trainer/waiting_share": trainer_wait_share(run.pk, since=since, until=now),
        "fleet/waiting_share": fleet_wait_share(run.pk) if run.has_fleet else None,
    }
