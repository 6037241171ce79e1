"""Sample fleet runs: running, paused, completed and failed."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.core.files.base import ContentFile

from buffer.batches.services.expiry import drop_open
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.services.pushes import accept_fragments
from buffer.items.models import Batch
from buffer.items.rules.states import DropReason
from rolldeck import safetensors
from rolldeck.wire import FleetEvent, WeightsManifest, WorkerEnding
from rollouts.control.services.reconciliation import record_manager_ended
from rollouts.metrics.schemas import Metric, MetricsPush
from rollouts.metrics.services.measuring import measure_run
from rollouts.metrics.services.metrics import record_metrics
from runs.events.services import record_event
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services import lifecycle
from runs.lifecycle.services.lifecycle import change_status, move
from runs.lifecycle.services.registry import register_trainer
from runs.weights.services import publish_weights, sync_weights
from tests.sample_runs import curves
from tests.sample_runs.fake_fleet import SLOTS, FakeFleet
from tests.sample_runs.fragments import SPEC, Slot
from tests.sample_runs.timeline import (
    ACTOR,
    METRIC_STEPS,
    VERSIONS,
    RunTimeline,
    incarnation_of,
    owner,
)

TRAINER = "token:ppo-node-3"
BATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Parameters that differ between fleet runs."""

    best: float = 480.0
    workers: int = 4
    seed: int = 0
    versions: int = VERSIONS


def create(timeline: RunTimeline, plan: FleetPlan, *, tags: tuple[str, ...] = ("ppo",)) -> Run:
    """Create a CartPole run with small fragments."""
    config = {
        "environment": {"spec": SPEC},
        "fleet": {"num_workers": plan.workers, "envs_per_worker": SLOTS, "fragment_length": 32},
        "buffer": {"batch_size": BATCH, "max_staleness": 2, "off_policy_tolerance": 3.0},
        "num_steps": 500,
        "seed": plan.seed,
    }
    return lifecycle.create(
        name=timeline.name,
        config=config,
        created_by=owner(),
        tags=tags,
        now=timeline.began_at,
    )


def train(run: Run, timeline: RunTimeline, plan: FleetPlan) -> FakeFleet:
    """Launch the fleet of a run and train it for all versions of the timeline."""
    fleet = FakeFleet.launched(run, timeline=timeline, workers=plan.workers)
    register_trainer(run_id=run.pk, identity=TRAINER, name="ppo-node-3", now=timeline.at(0.015))
    random = timeline.random
    slots = [
        Slot(worker=worker, slot=slot, random=random)
        for worker in range(plan.workers)
        for slot in range(BATCH // plan.workers)
    ]
    many = plan.versions
    step = timeline.length * 0.97 / many
    windows = list(curves.returns(random, many, best=plan.best))
    for version in range(many):
        at = timeline.at(0.02 + 0.97 * version / many)
        publish(run, version, random=random, now=at)
        events = _crash(fleet) if version == many // 2 else []
        if version == many // 3:
            fleet.weights_command = _sync(run, now=at)
        found = [(SPEC, "train", windows[version])]
        if version % 5 == 4:
            found.append((SPEC, "eval", windows[version] * 1.05))
        fleet.report(
            at=at,
            policy_step=version,
            returns=found,
            events=events,
            seconds=step.total_seconds(),
        )
        for _ in range(2 if version == 0 else 1):  # one batch stays queued
            push(run, slots, policy_step=version, now=at)
        if version < many - 1:
            lease = lease_batch(run_id=run.pk, identity=TRAINER)
            if lease is not None:
                train_on(
                    run, lease.batch, at=at + step * 0.1, lasts=step * random.uniform(0.4, 0.8)
                )
            measure_run(run_id=run.pk, now=at + step * 0.95)
    lease_batch(run_id=run.pk, identity=TRAINER)
    date_batches(run, timeline)
    measure(run, timeline, curves.ppo_metrics(random, METRIC_STEPS))
    return fleet


def _sync(run: Run, *, now: datetime) -> int:
    """Request a weight sync as a person; return the number of the order."""
    order = sync_weights(run_id=run.pk, actor=ACTOR, reason="worker 3 trails by a version", now=now)
    return order.number


def push(run: Run, slots: list[Slot], *, policy_step: int, now: datetime) -> None:
    """Push one fragment of each slot."""
    run.refresh_from_db()
    fragments = [slot.next(policy_step=policy_step) for slot in slots]
    accept_fragments(run=run, fragments=fragments, now=now)


def confirm(run: Run, batch: Batch) -> None:
    """Acknowledge a batch."""
    acknowledge_batch(run_id=run.pk, batch_id=batch.pk, fence=batch.fence)


def train_on(run: Run, batch: Batch, *, at: datetime, lasts: timedelta) -> None:
    """Acknowledge a batch at a given time, so that measurements of the run fit."""
    confirm(run, batch)
    Batch.objects.filter(pk=batch.pk).update(
        leased_at=at, delivered_at=at + timedelta(seconds=0.2), settled_at=at + lasts
    )
    Run.objects.filter(pk=run.pk, trainer_started_at__gt=at).update(trainer_started_at=at)


def rest(run: Run, *, at: datetime) -> None:
    """Measure the end of a run, and that it is idle afterwards."""
    for seconds in (10, 20):
        measure_run(run_id=run.pk, now=at + timedelta(seconds=seconds))


def publish(
    run: Run,
    step: int,
    *,
    random: np.random.Generator,
    identity: str = TRAINER,
    now: datetime,
) -> None:
    """Publish weights of a small policy."""
    tensors = {
        "body.0.weight": random.normal(0, 0.3, (64, 4)).astype(np.float32),
        "body.2.weight": random.normal(0, 0.1, (64, 64)).astype(np.float32),
        "action.weight": random.normal(0, 0.1, (2, 64)).astype(np.float32),
    }
    content = safetensors.encode(tensors)
    manifest = WeightsManifest(
        epoch=1,
        step=step,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        tensors=safetensors.specs(content),
    )
    publish_weights(
        run_id=run.pk, manifest=manifest, file=ContentFile(content), identity=identity, now=now
    )


def measure(run: Run, timeline: RunTimeline, found: dict[str, curves.Curve]) -> None:
    """Store metrics step by step, each with its own time, as a trainer does."""
    steps = len(next(iter(found.values())))
    every = max(1, steps // 60)
    for begin in range(0, steps, every):
        samples = [
            Metric(name=name, step=step, value=round(float(values[step]), 6))
            for step in range(begin, min(begin + every, steps))
            for name, values in found.items()
        ]
        at = timeline.at(0.02 + 0.97 * begin / steps)
        record_metrics(run_id=run.pk, push=MetricsPush(samples=samples), now=at)


def date_batches(run: Run, timeline: RunTimeline) -> None:
    """Backdate batches: leases use the database's clock, and the timeline lies in the past."""
    batches = list(Batch.objects.filter(run=run).order_by("ordinal"))
    for place, batch in enumerate(batches):
        if batch.leased_at < timeline.ends_at:
            continue
        batch.leased_at = timeline.at(0.03 + 0.95 * place / max(len(batches), 1))
        batch.delivered_at = batch.leased_at + timedelta(seconds=0.2)
        if batch.settled_at is not None:
            batch.settled_at = batch.leased_at + timedelta(seconds=4)
    Batch.objects.bulk_update(batches, ["leased_at", "delivered_at", "settled_at"])
    Run.objects.filter(pk=run.pk).update(trainer_started_at=timeline.at(0.03))
    Trainer.objects.filter(run=run).update(last_seen_at=timeline.ends_at)


def complete(run: Run, timeline: RunTimeline) -> None:
    """Complete a run by a finished drain."""
    change_status(
        run_id=run.pk, verb=RunVerb.DRAIN, actor=ACTOR, reason="good enough", now=timeline.at(0.99)
    )
    drop_open(run_id=run.pk, reason=DropReason.DRAINED, now=timeline.ends_at)
    move(
        run_id=run.pk,
        target=RunStatus.COMPLETED,
        actor="fleet reconciler",
        reason="fleet and buffer are drained",
        now=timeline.ends_at,
    )
    _end_fleet(run, "the run is completed", now=timeline.ends_at)
    rest(run, at=timeline.ends_at)


def pause(run: Run, timeline: RunTimeline) -> None:
    """Pause a run on behalf of a person who needs one of its nodes."""
    reason = "gpu-a1 gets a new driver; resume after 18:00"
    change_status(
        run_id=run.pk, verb=RunVerb.PAUSE, actor=ACTOR, reason=reason, now=timeline.at(0.98)
    )
    rest(run, at=timeline.ends_at)


def fail(run: Run, timeline: RunTimeline) -> None:
    """Fail a run after repeated errors of its environment."""
    error = (
        "10 launches within 10 minutes; last: every env slot of worker 1 failed: "
        "ValueError: pole angle is nan"
    )
    for place in range(3):
        record_event(
            run_id=run.pk,
            kind="worker_failed",
            level="error",
            message=f"worker {place} failed: its environments cannot be reset",
            actor="fleet",
            reason=error,
            now=timeline.at(0.9 + place / 50),
        )
    move(
        run_id=run.pk,
        target=RunStatus.FAILED,
        actor="fleet reconciler",
        reason=error,
        now=timeline.ends_at,
    )
    drop_open(run_id=run.pk, reason=DropReason.KILLED, now=timeline.ends_at)
    _end_fleet(run, error, now=timeline.ends_at)
    rest(run, at=timeline.ends_at)


def _end_fleet(run: Run, reason: str, *, now: datetime) -> None:
    record_manager_ended(run_id=run.pk, incarnation=run.fleet.incarnation, reason=reason, now=now)


def _crash(fleet: FakeFleet) -> list[FleetEvent]:
    """Simulate an out-of-memory kill and a restart of worker 2."""
    ending = WorkerEnding(
        index=2,
        incarnation=incarnation_of(2, restarts=fleet.restarts),
        reason="killed by the node for its memory (exit code -9)",
        node="cpu-b1",
        pid=41_002,
        env_steps=fleet.env_steps // fleet.workers,
        fragments_sent=fleet.env_steps // fleet.workers // 32,
        lost_steps=118,
    )
    fleet.restarts += 1
    return [
        FleetEvent(
            kind="worker_lost",
            level="warning",
            message="worker 2 died and is respawned: killed by the node for its memory",
            details={"worker": 2, "exit_code": -9, "lost_steps": 118},
            ending=ending,
        )
    ]
