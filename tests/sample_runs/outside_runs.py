"""Sample outside runs: several environments, batches in every state, hostile text."""

from datetime import datetime, timedelta
from typing import Final

import numpy as np

from buffer.batches.services.lease_expiry import (
    discard,
    quarantine_repeated_expiries,
    return_expired_batches,
)
from buffer.batches.services.leases import lease_batch
from buffer.followers.services import Filter, follow
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch
from buffer.items.rules.states import EXPIRIES_BEFORE_QUARANTINE
from rollouts.metrics.services.measuring import measure_run
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import Registration, RunVerb
from runs.lifecycle.services.lifecycle import change_status, create
from runs.lifecycle.services.registry import (
    disconnect_environment,
    register_environment,
    register_trainer,
)
from tests.sample_runs import texts
from tests.sample_runs.curves import grpo_metrics
from tests.sample_runs.fleet_runs import date_batches, measure, publish, train_on
from tests.sample_runs.groups import scored
from tests.sample_runs.timeline import ACTOR, METRIC_STEPS, RunTimeline, owner

FIRST: Final = "token:grpo-node-0"
SECOND: Final = "token:grpo-node-1"
GROUP: Final = 8
BATCH: Final = 32
PUSHES: Final = 14
# Name, weight, minimum share of each batch, whether it is still connected.
ENVIRONMENTS: Final = (
    ("gsm8k", 2.0, 0.25, True),
    ("code-exec", 1.0, None, True),
    ("tool-use", 1.0, None, True),
    ("gsm8k", 0.5, None, False),
)


def opened(timeline: RunTimeline, *, batch_size: int = BATCH) -> Run:
    """Create and start an outside run; its first trainer sets the batch size."""
    run = create(
        name=timeline.name,
        kind="outside",
        created_by=owner(),
        tags=("grpo", "atropos"),
        now=timeline.began_at,
    )
    change_status(run_id=run.pk, verb=RunVerb.START, actor=ACTOR, now=timeline.began_at)
    registration = Registration(
        wandb_group="seeded",
        wandb_project="rolldeck",
        batch_size=batch_size,
        max_token_len=4096,
        num_steps=400,
    )
    for identity in (FIRST, SECOND):
        register_trainer(
            run_id=run.pk,
            identity=identity,
            name=identity.partition(":")[2],
            registration=registration,
            now=timeline.at(0.01),
        )
    return run


def join(run: Run, timeline: RunTimeline, name: str, weight: float, least: float | None) -> int:
    """Register an environment and return its id."""
    return register_environment(
        run_id=run.pk,
        desired_name=name,
        weight=weight,
        max_token_length=4096,
        group_size=GROUP,
        min_batch_allocation=least,
        now=timeline.at(0.02),
    ).env_id


def write_mixed(timeline: RunTimeline) -> Run:
    """Write a running run with four environments, whose queue is over its threshold."""
    run, random = opened(timeline), timeline.random
    for env_id, (name, weight, least, stays) in enumerate(ENVIRONMENTS):
        join(run, timeline, name, weight, least)
        if not stays:
            disconnect_environment(run_id=run.pk, env_id=env_id, now=timeline.at(0.4))
    for number in range(PUSHES):
        if number % 4 == 0:
            at = timeline.at(0.03 + 0.95 * number / PUSHES)
            publish(run, number // 4, random=random, identity=FIRST, now=at)
        env_id = (0, 1, 0, 2)[number % 4]
        _push(
            run, timeline, random, env_id=env_id, number=number, part=0.03 + 0.95 * number / PUSHES
        )
        at = timeline.at(0.03 + 0.95 * (number + 0.5) / PUSHES)
        if number % 2 and number < PUSHES // 2:
            _lease_and_acknowledge(
                run, at=at, lasts=timeline.length * random.uniform(0.4, 1.4) / PUSHES
            )
        measure_run(run_id=run.pk, now=at + timeline.length * 0.4 / PUSHES)
    _every_batch_state(run, timeline)
    measure(run, timeline, grpo_metrics(random, METRIC_STEPS // 2))
    for name in ("archive", "dashboards"):
        follow(run=run, name=name, start="earliest", only=Filter(), now=timeline.at(0.5))
    return run


def write_hostile(timeline: RunTimeline) -> Run:
    """Write a run with hostile text in every field; all of it must be shown as plain text."""
    run = opened(timeline, batch_size=64)
    join(run, timeline, f"env {texts.MARKUP} \u202eslave"[:180], 1.0, None)
    problems = texts.hostile_problems()
    groups = [scored(one, random=timeline.random, env_id=0) for one in problems]
    groups = [group for group in groups if group.sequences]
    run.refresh_from_db()
    accept_groups(
        run=run, groups=groups, producer=f"env:{texts.MARKUP}"[:200], now=timeline.at(0.5)
    )
    for place, text in enumerate((texts.MARKUP, texts.DECEPTIVE, texts.LONG[:2000])):
        record_event(
            run_id=run.pk,
            kind="odd_groups",
            level=("info", "warning", "error")[place],
            message=text,
            actor=f"env:{texts.MARKUP}",
            reason=text,
            details={texts.MARKUP: text},
            now=timeline.at(0.6 + place / 10),
        )
    change_status(
        run_id=run.pk, verb=RunVerb.PAUSE, actor=ACTOR, reason=texts.MARKUP, now=timeline.ends_at
    )
    return run


def _push(
    run: Run,
    timeline: RunTimeline,
    random: np.random.Generator,
    *,
    env_id: int,
    number: int,
    part: float,
) -> None:
    """Push four groups; some are truncated, some without variance, some duplicated."""
    write = texts.PROBLEMS[ENVIRONMENTS[env_id][0]]
    problems = [write(random, GROUP) for _ in range(4)]
    if number % 5 == 0:
        problems[0] = texts.Problem(
            prompt=problems[0].prompt, answers=problems[0].answers, scores=[1.0] * GROUP
        )
    if number % 7 == 0:
        problems[1] = problems[2]
    groups = [
        scored(
            problem,
            random=random,
            env_id=env_id,
            policy_step=number // 4,
            has_advantages=number % 2 == 0,
            ended_at=timeline.at(part) if env_id != 1 else None,
            more={"overrides": [{"is_truncated": place == 3} for place in range(GROUP)]}
            if number % 6 == 0
            else {},
        )
        for problem in problems
    ]
    run.refresh_from_db()
    producer = f"env:{ENVIRONMENTS[env_id][0]}_0"
    accept_groups(run=run, groups=groups, producer=producer, now=timeline.at(part))


def _lease_and_acknowledge(run: Run, *, at: datetime, lasts: timedelta) -> None:
    lease = lease_batch(run_id=run.pk, identity=FIRST)
    if lease is not None:
        train_on(run, lease.batch, at=at, lasts=lasts)


def _every_batch_state(run: Run, timeline: RunTimeline) -> None:
    """Leave batches discarded, quarantined, leased and returned; acknowledged ones exist."""
    _quarantine_batch(run, timeline)
    dropped = Batch.objects.filter(run=run, state="quarantined").get()
    discard(run_id=run.pk, batch_id=dropped.pk, actor=ACTOR, now=timeline.at(0.9))
    _quarantine_batch(run, timeline)
    lease_batch(run_id=run.pk, identity=FIRST)
    lease_batch(run_id=run.pk, identity=SECOND)
    _expire_lease(run, SECOND)
    date_batches(run, timeline)
    Batch.objects.filter(run=run, state="leased").update(
        lease_expires_at=timeline.ends_at + timedelta(days=1)
    )


def _quarantine_batch(run: Run, timeline: RunTimeline) -> None:
    """Expire the lease of one batch until the batch is quarantined."""
    for _ in range(EXPIRIES_BEFORE_QUARANTINE):
        lease_batch(run_id=run.pk, identity=SECOND)
        _expire_lease(run, SECOND)
    quarantine_repeated_expiries(now=timeline.at(0.88))


def _expire_lease(run: Run, identity: str) -> None:
    held = Batch.objects.filter(run=run, state="leased", trainer__identity=identity)
    held.update(lease_expires_at=run.created_at)
    return_expired_batches()
