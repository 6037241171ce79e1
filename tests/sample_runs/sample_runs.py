"""Write each sample run in its own transaction, and report for the fleets of the active ones."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import transaction

from rollouts.control.rules import StaleIncarnation
from rollouts.control.services.reconciliation import record_manager_ended
from runs.access.models import TokenIssuer
from runs.access.services.tokens import create_token, revoke_token
from runs.lifecycle.models import Environment
from runs.lifecycle.rules import MoveNotAllowed, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from runs.lifecycle.services.registry import renew_environments_seen
from tests.sample_runs import fleet_runs, language_run, outside_runs, reviews
from tests.sample_runs.fake_fleet import FakeFleet
from tests.sample_runs.fleet_runs import FleetPlan
from tests.sample_runs.fragments import SPEC
from tests.sample_runs.timeline import ACTOR, PREFIX, timeline

REPORT_SECONDS: Final = 1.0
EPISODES_END_EVERY: Final = 3
"""Number of reports between ended episodes."""
Clock = Callable[[], datetime]


def write(*, clock: Clock) -> list[FakeFleet]:
    """Write all sample runs; return the fleets of the paused and the running one.

    From then on the platform expects a report of these fleets every few seconds.
    """
    _write_ended(now=clock())
    fleets = _live(clock)
    _tokens(now=clock())
    reviews.write(now=clock())
    return fleets


def _write_ended(*, now: datetime) -> None:
    """Write the runs without live fleets, oldest first.

    Each in one transaction, so that no reconciler sees a run that wants a fleet and has none.
    """
    for number in range(2):
        with transaction.atomic():
            _sweep(number, now=now)
    with transaction.atomic():
        line = timeline("cartpole-failed", now=now, minutes_ago=400, minutes=14)
        plan = FleetPlan(best=60)
        run = fleet_runs.create(line, plan)
        fleet_runs.train(run, line, plan)
        fleet_runs.fail(run, line)
    with transaction.atomic():
        language_run.write(timeline("reverse-lessons", now=now, minutes_ago=320, minutes=120))
    with transaction.atomic():
        outside_runs.write_mixed(timeline("atropos-mix", now=now, minutes_ago=95))
    with transaction.atomic():
        outside_runs.write_hostile(timeline("hostile-text", now=now, minutes_ago=50))
    fleet_runs.create(timeline("cartpole-draft", now=now, minutes_ago=20), FleetPlan(seed=9))


def _sweep(number: int, *, now: datetime) -> None:
    """Write one run of a sweep; the runs differ in seed and number of workers."""
    line = timeline(f"cartpole-sweep-{number}", now=now, minutes_ago=1500 - 60 * number, minutes=45)
    plan = FleetPlan(best=480 - 70 * number, workers=2 + 2 * number, seed=number, versions=4)
    run = fleet_runs.create(line, plan, tags=("ppo", "sweep"))
    fleet_runs.train(run, line, plan)
    run.refresh_from_db()
    fleet_runs.complete(run, line)


@transaction.atomic
def _live(clock: Clock) -> list[FakeFleet]:
    """Write the paused and the running run, and report once for both fleets."""
    now, plans = clock(), (FleetPlan(best=300, seed=3), FleetPlan(seed=1))
    lines = [
        timeline("cartpole-paused", now=now, minutes_ago=170, minutes=130),
        timeline("cartpole-live", now=now, minutes_ago=110),
    ]
    fleets = [
        fleet_runs.train(fleet_runs.create(line, plan), line, plan)
        for line, plan in zip(lines, plans, strict=True)
    ]
    fleet_runs.pause(fleets[0].run, lines[0])
    fleets[1].add_operator_requests(at=clock(), actor=ACTOR)
    for fleet in fleets:
        _report(fleet, now=clock())
    return fleets


def _tokens(*, now: datetime) -> None:
    """Create an active and a revoked token."""
    create_token(name=f"{PREFIX}trainer", scopes=["trainer"], issuer=TokenIssuer.PLATFORM, now=now)
    token, _ = create_token(
        name=f"{PREFIX}old-environment",
        scopes=["env"],
        issuer=TokenIssuer.PLATFORM,
        now=now - timedelta(days=40),
    )
    revoke_token(token_id=token.pk, actor=ACTOR, now=now)


def keep_alive(fleets: Iterable[FakeFleet], *, clock: Clock) -> None:
    """Report for the fleets each second, execute their requests, and refresh the environments.

    Returns when every run has another manager, or none.
    """
    reporting = list(fleets)
    connected: dict[int, list[int]] = {}
    rows = Environment.objects.filter(run__name__startswith=PREFIX, connected=True)
    for run_id, env_id in rows.values_list("run_id", "env_id"):
        connected.setdefault(run_id, []).append(env_id)
    while reporting:
        now = clock()
        reporting = [fleet for fleet in reporting if _report(fleet, now=now)]
        for run_id, env_ids in connected.items():
            renew_environments_seen(run_id=run_id, env_ids=env_ids, now=now)
        time.sleep(REPORT_SECONDS)


def _report(fleet: FakeFleet, *, now: datetime) -> bool:
    """Report once; return False if another manager has taken over."""
    fleet.run.refresh_from_db()
    state = "paused" if fleet.run.status == "paused" else "running"
    has_ended = fleet.sequence % EPISODES_END_EVERY == 0 and state == "running"
    returns = np.clip(fleet.random.normal(430, 50, 6), 20, 500).round(1)
    try:
        fleet.report(
            at=now,
            policy_step=fleet.run.policy_step,
            returns=[(SPEC, "train", returns)] if has_ended else [],
            state=state,
            seconds=REPORT_SECONDS if state == "running" else 0,
        )
    except StaleIncarnation:
        return False
    fleet.answer_operator_requests(at=now)
    return True


def end(fleets: Iterable[FakeFleet], *, now: datetime) -> None:
    """Kill the runs of live fleets; a paused run stays, without a manager."""
    reason = "the tests that report for its fleet have ended"
    for fleet in fleets:
        fleet.run.refresh_from_db()
        if fleet.run.status == "paused":
            record_manager_ended(
                run_id=fleet.run.pk, incarnation=fleet.incarnation, reason=reason, now=now
            )
            continue
        with suppress(MoveNotAllowed):  # already ended
            change_status(
                run_id=fleet.run.pk, verb=RunVerb.KILL, actor=ACTOR, reason=reason, now=now
            )
