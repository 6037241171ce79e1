"""Say how data flows through a run, and what holds it up."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from buffer import selectors as buffer_selectors
from rollouts.core import bottleneck, flow
from rollouts.core.pipeline import mean_shares
from rollouts.models import FleetWorker
from rollouts.selectors.fleets import UNKNOWN_AFTER
from rollouts.wire import Pipeline, PipelineStage, PipelineVerdict
from runs.models import Run


def pipeline_of(run: Run, *, now: datetime) -> Pipeline:
    """Return how data flowed through a run within the last minute, from a bounded few rows."""
    facts = facts_of(run, now=now)
    return Pipeline(
        unit="sequences" if run.takes_groups else "fragments",
        workers=facts.workers,
        stages=[PipelineStage(**asdict(stage)) for stage in flow.stages(facts)],
        verdict=PipelineVerdict(**asdict(bottleneck.judge(facts))),
        arriving=facts.arriving,
        handed_out=facts.handed_out,
        queued=facts.queued,
        pause_above=facts.pause_above,
        batch_size=facts.batch_size,
        age_seconds=facts.age_seconds,
        shares=dict(facts.shares),
    )


def facts_of(run: Run, *, now: datetime) -> flow.Facts:
    """Return what is known of a run's last minute."""
    depth = buffer_selectors.queue_depth(run.pk)
    rates = buffer_selectors.rates_of(run, now=now)
    pace = buffer_selectors.trainer_pace(run.pk, now=now)
    return flow.Facts(
        kind=run.kind,  # type: ignore[arg-type]
        status="stopped" if run.archived_at else run.status,
        unit="sequences" if run.takes_groups else "fragments",
        arriving=rates.arriving,
        handed_out=rates.handed_out,
        batches_per_second=rates.batches,
        queued=depth.queued_sequences,
        pause_above=depth.threshold or None,
        batch_size=depth.batch_size,
        trainer_waits=None if pace is None else pace.waiting_share,
        train_seconds=rates.train_seconds,
        holding_seconds=rates.holding_seconds,
        delivery_seconds=rates.delivery_seconds,
        age_seconds=None if pace is None else pace.age_seconds,
        **_of_workers(run, now=now),
    )


def _of_workers(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return what the workers that run say of themselves; one that is silent says nothing."""
    heard = FleetWorker.objects.filter(
        fleet__run=run, state="running", heartbeat_at__gt=now - UNKNOWN_AFTER
    )
    rows = list(heard.values_list("shares", "env_steps_per_second", "to_send"))
    return {
        "workers": len(rows),
        "shares": mean_shares(shares for shares, _, _ in rows),
        "work_per_second": sum(speed for _, speed, _ in rows) if rows else None,
        "to_send": sum(to_send for _, _, to_send in rows),
    }
