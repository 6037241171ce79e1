"""Write each sample run in its own transaction, and simulate the fleets of the active ones."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import transaction

from config.seed import alerts, events, fleet_runs, language_run, outside_runs, saved_objects
from config.seed.fake_fleet import FakeFleet
from config.seed.fleet_runs import FleetPlan
from config.seed.fragments import SPEC
from config.seed.scale import ACTOR, PREFIX, Scale, timeline
from rollouts.control.services.launches import record_manager_ended
from rollouts.fleet.manager.reports import StaleIncarnation
from runs.access.models import TokenIssuer
from runs.access.services.tokens import create_token, revoke_token
from runs.lifecycle.models.runs import Environment, Run
from runs.lifecycle.rules.lifecycle import MoveNotAllowed, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from runs.lifecycle.services.registry import renew_environments_seen

COMMAND: Final = "manage.py seed"
REPORT_SECONDS: Final = 1.0
EPISODES_END_EVERY: Final = 3
"""Number of reports between ended episodes."""
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """The written runs."""

    runs: list[str]
    fleets: list[FakeFleet]
    """Fleets of the running and the paused run, which need a simulated manager."""


def present() -> list[str]:
    """Return the names of the existing sample runs."""
    named = Run.objects.current().filter(name__startswith=PREFIX).order_by("name")
    return list(named.values_list("name", flat=True))


def write(*, scale: Scale, clock: Clock, note: Callable[[str], object]) -> Seeded:
    """Write all sample runs; `note` is called with the name of each."""
    runs, now, before = [], clock(), events.newest()
    for run in _runs_without_fleet(scale, now):
        runs.append(run.name)
        note(run.name)
    # Last, because from here on the platform expects a report of these fleets every few seconds.
    fleets = _live(scale, clock)
    for fleet in fleets:
        note(fleet.run.name)
    names = [*runs, *(fleet.run.name for fleet in fleets)]
    Run.objects.current().filter(name__in=names).update(serves_simulated=False)
    _tokens(now)
    saved_objects.write(now=clock())
    alerts.write(now=clock())
    events.put_in_order(after=before)
    return Seeded(runs=names, fleets=fleets)


def _runs_without_fleet(scale: Scale, now: datetime) -> Iterator[Run]:
    """Yield the runs without live fleets, oldest first.

    Each in one transaction, so that no reconciler sees a run that wants a fleet and has none.
    """
    for number in range(scale.finished_runs):
        yield _finished(scale, now, number)
    with transaction.atomic():
        run_timeline = timeline(
            "cartpole-failed", scale=scale, now=now, minutes_ago=400, minutes=14
        )
        run = fleet_runs.create(run_timeline, FleetPlan(best=60, learning_speed=1.0))
        fleet_runs.train(run, run_timeline, FleetPlan(best=60, learning_speed=1.0))
        fleet_runs.fail(run, run_timeline)
    yield run
    with transaction.atomic():
        run_timeline = timeline(
            "reverse-lessons", scale=scale, now=now, minutes_ago=320, minutes=120
        )
        run = language_run.write(run_timeline)
    yield run
    with transaction.atomic():
        run = outside_runs.write_mixed(
            timeline("atropos-mix", scale=scale, now=now, minutes_ago=95)
        )
    yield run
    with transaction.atomic():
        run = outside_runs.write_hostile(
            timeline("hostile-text", scale=scale, now=now, minutes_ago=50)
        )
    yield run
    run_timeline = timeline("cartpole-draft", scale=scale, now=now, minutes_ago=20)
    yield fleet_runs.create(run_timeline, FleetPlan(seed=9))


@transaction.atomic
def _finished(scale: Scale, now: datetime, number: int) -> Run:
    """Write one run of a sweep; the runs differ in seed and number of workers."""
    run_timeline = timeline(
        f"cartpole-sweep-{number}",
        scale=scale.halved,
        now=now,
        minutes_ago=1500 - 60 * number,
        minutes=45,
    )
    plan = FleetPlan(
        best=480 - 70 * number, workers=(2, 4)[number % 2], seed=number, learning_speed=6 - number
    )
    run = fleet_runs.create(run_timeline, plan, tags=("ppo", "sweep"))
    fleet_runs.train(run, run_timeline, plan)
    run.refresh_from_db()
    fleet_runs.complete(run, run_timeline)
    return run


@transaction.atomic
def _live(scale: Scale, clock: Clock) -> list[FakeFleet]:
    """Write the running and the paused run, and report once for both fleets."""
    now, plans = clock(), (FleetPlan(best=300, seed=3), FleetPlan(seed=1))
    stories = [
        timeline("cartpole-paused", scale=scale, now=now, minutes_ago=170, minutes=130),
        timeline("cartpole-live", scale=scale, now=now, minutes_ago=110),
    ]
    fleets = [
        fleet_runs.train(fleet_runs.create(one, plan), one, plan)
        for one, plan in zip(stories, plans, strict=True)
    ]
    fleet_runs.pause(fleets[0].run, stories[0])
    fleets[1].add_operator_requests(at=clock(), actor=ACTOR)
    for fleet in fleets:
        _report(fleet, now=clock())
    return fleets


def _tokens(now: datetime) -> None:
    """Create an active, a revoked and an expired token."""
    for name, scopes, age in (
        (f"{PREFIX}trainer", ["trainer"], 0),
        (f"{PREFIX}old-environment", ["env"], 40),
        (f"{PREFIX}expired", ["read"], 90),
    ):
        token, _ = create_token(
            name=name,
            scopes=scopes,
            issuer=TokenIssuer.PLATFORM,
            expires_at=now - timedelta(days=1) if age == 90 else None,
            now=now - timedelta(days=age),
        )
        if age == 40:
            revoke_token(token_id=token.pk, actor=ACTOR, now=now)


def keep_alive(fleets: Iterable[FakeFleet], *, clock: Clock) -> None:
    """Report for the fleets each second, execute their requests, and refresh the environments.

    Returns when every run has another manager, or none.
    """
    spoken_for = list(fleets)
    connected = _connected_environments()
    while spoken_for:
        now = clock()
        spoken_for = [fleet for fleet in spoken_for if _report(fleet, now=now)]
        for run_id, env_ids in connected.items():
            renew_environments_seen(run_id=run_id, env_ids=env_ids, now=now)
        time.sleep(REPORT_SECONDS)


def _connected_environments() -> dict[int, list[int]]:
    """Return the ids of the connected environments of each seeded run."""
    found: dict[int, list[int]] = {}
    rows = Environment.objects.filter(
        run__name__startswith=PREFIX, run__archived_at=None, connected=True
    )
    for run_id, env_id in rows.values_list("run_id", "env_id"):
        found.setdefault(run_id, []).append(env_id)
    return found


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
    reason = "the command that simulated its fleet has ended"
    for fleet in fleets:
        fleet.run.refresh_from_db()
        if fleet.run.status == "paused":
            record_manager_ended(
                run_id=fleet.run.pk, incarnation=fleet.incarnation, reason=reason, now=now
            )
            continue
        with suppress(MoveNotAllowed):  # already ended
            change_status(
                run_id=fleet.run.pk, verb=RunVerb.KILL, actor=COMMAND, reason=reason, now=now
            )
