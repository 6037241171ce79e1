"""Say in figures what a run did between two measurements. docs/explanation/metrics.md lists them.

A figure that there is nothing to say about is None, and is not stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from buffer.batches.queries.flows import (
    BatchFlow,
    GroupFlow,
    Place,
    batch_flow,
    cut_flow,
    group_flow,
)
from buffer.batches.queries.queue_depth import pause_rule
from buffer.batches.queries.trainer_pace import trainers_waited
from rollouts.metrics.models.metrics import MeasureCursor
from rollouts.metrics.queries.flows import EpisodeFlow, episode_flow, fleet_waited
from rollouts.metrics.rules.measures import at_rank
from runs.models import Run, RunKind

Found = Mapping[str, float | None]
"""Figures by name, without the deck's prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is new in a run since it was measured."""

    run: Run
    before: MeasureCursor
    counts: Mapping[str, int]
    """By now; those of `before` are of then."""
    groups: GroupFlow
    digested: tuple[Place, float | None]
    """The last group that is digested, and the part of the sequences that were cut."""
    batches: BatchFlow
    episodes: EpisodeFlow

    @classmethod
    def at(cls, run: Run, before: MeasureCursor, counts: Mapping[str, int]) -> "Look":
        """Look at a run."""
        group = Place(before.group_written_in, before.group)
        digest = Place(before.digest_written_in, before.digest)
        return cls(
            run=run,
            before=before,
            counts=counts,
            groups=group_flow(run.pk, after=group),
            digested=cut_flow(run.pk, after=digest),
            batches=batch_flow(run.pk, after=before.batch),
            episodes=episode_flow(run.pk, after=before.episode_window),
        )

    @property
    def first_at(self) -> datetime | None:
        """When the first of what is new came in or went out."""
        times = (self.groups.first_at, self.batches.first_at)
        return min((at for at in times if at is not None), default=None)


def levels(look: Look) -> Found:
    """Return what is so at the moment, or of all that is new, however long that took."""
    rule = pause_rule(look.run)
    staleness = look.batches.staleness
    return {
        "queue/depth": look.counts["queued"],
        "queue/threshold": rule.pause_above if rule else None,
        "staleness/p50": at_rank(staleness, 0.5),
        "staleness/p95": at_rank(staleness, 0.95),
        **(_of_groups(look) if look.run.takes_groups else _of_episodes(look.episodes)),
    }


def _of_episodes(episodes: EpisodeFlow) -> Found:
    return {
        **_rewards(episodes.return_mean, episodes.return_percentiles),
        "length/mean": episodes.mean_length,
        "length/max": episodes.longest,
        "truncated_share": episodes.truncated_share,
    }


def _of_groups(look: Look) -> Found:
    groups, episodes = look.groups, look.episodes
    # A worker of a language run says how long the answers are; of others, prompts are counted too.
    tells = look.run.kind == RunKind.LANGUAGE
    dropped = look.counts["without_variance"] - look.before.without_variance
    seen = groups.groups + dropped
    return {
        **_rewards(groups.score_mean, groups.score_percentiles),
        "length/mean": episodes.mean_length if tells else groups.mean_tokens,
        "length/max": episodes.longest if tells else groups.longest_tokens,
        "truncated_share": look.digested[1],
        "zero_variance_share": (groups.without_variance + dropped) / seen if seen else None,
    }


def _rewards(mean: float | None, percentiles: Sequence[float] | None) -> Found:
    names = ("reward/p10", "reward/p50", "reward/p90")
    return {"reward/mean": mean, **dict(zip(names, percentiles or (), strict=False))}


def rates(look: Look, *, amount: int, seconds: float) -> dict[str, float]:
    """Return how fast data came in and went out, over so many seconds.

    Args:
        look: What is new.
        amount: Tokens handed out, or env steps made, by now.
        seconds: Above 0.
    """
    work = "tokens_per_second" if look.run.takes_groups else "env_steps_per_second"
    return {
        "accepted_per_second": (look.counts["accepted"] - look.before.accepted) / seconds,
        "served_per_second": look.batches.items / seconds,
        work: (amount - look.before.amount) / seconds,
    }


def waits(run: Run, *, since: datetime, now: datetime) -> Found:
    """Return which part of the time trainers waited for data, and workers for room."""
    return {
        "trainer/waiting_share": trainers_waited(run.pk, since=since, until=now),
        "fleet/waiting_share": fleet_waited(run.pk) if run.has_fleet else None,
    }
