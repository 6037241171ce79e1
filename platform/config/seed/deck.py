"""Write every seeded run, each in a transaction of its own, and keep the live one alive."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import transaction

from config.seed import fleet_runs, language_run, outside_runs
from config.seed.fleet_runs import FleetPlan
from config.seed.fragments import SPEC
from config.seed.played_fleet import PlayedFleet
from config.seed.scale import ACTOR, PREFIX, Scale, story
from rollouts.core.reports import StaleIncarnation
from runs import services as run_services
from runs.core.lifecycle import MoveNotAllowed, RunVerb
from runs.models import Run

LIVE: Final = f"{PREFIX}cartpole-live"
REPORT_SECONDS: Final = 1.0
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """What was written."""

    runs: list[str]
    live: PlayedFleet
    """The fleet of the run that is under way; somebody must speak for it."""


def present() -> list[str]:
    """Return the seeded runs that the deck has."""
    named = Run.objects.current().filter(name__startswith=PREFIX).order_by("name")
    return list(named.values_list("name", flat=True))


def write(*, scale: Scale, clock: Clock, note: Callable[[str], object]) -> Seeded:
    """Write every run; `note` is told the name of each."""
    runs, now = [], clock()
    for run in _quiet_runs(scale, now):
        runs.append(run.name)
        note(run.name)
    # Last, because from here on the platform expects to hear of its fleet every few seconds.
    fleet = _live(scale, clock)
    note(fleet.run.name)
    _tokens(now)
    return Seeded(runs=[*runs, fleet.run.name], live=fleet)


def _quiet_runs(scale: Scale, now: datetime) -> Iterator[Run]:
    """Yield the runs that stay as they are, oldest first.

    One transaction each: no reconciler ever sees a run that wants a fleet and has none.
    """
    for number in range(scale.finished_runs):
        yield _finished(scale, now, number)
    with transaction.atomic():
        told = story("cartpole-failed", scale=scale, now=now, minutes_ago=400, minutes=14)
        run = fleet_runs.create(told, FleetPlan(best=60, learning_speed=1.0))
        fleet_runs.train(run, told, FleetPlan(best=60, learning_speed=1.0))
        fleet_runs.fail(run, told)
    yield run
    with transaction.atomic():
        told = story("reverse-lessons", scale=scale, now=now, minutes_ago=320, minutes=120)
        run = language_run.write(told)
    yield run
    with transaction.atomic():
        told = story("cartpole-paused", scale=scale, now=now, minutes_ago=170, minutes=130)
        run = fleet_runs.create(told, FleetPlan(best=300, seed=3))
        fleet_runs.train(run, told, FleetPlan(best=300, seed=3))
        fleet_runs.pause(run, told)
    yield run
    with transaction.atomic():
        run = outside_runs.write_mixed(story("atropos-mix", scale=scale, now=now, minutes_ago=95))
    yield run
    with transaction.atomic():
        run = outside_runs.write_hostile(
            story("hostile-text", scale=scale, now=now, minutes_ago=50)
        )
    yield run
    told = story("cartpole-draft", scale=scale, now=now, minutes_ago=20)
    yield fleet_runs.create(told, FleetPlan(seed=9))


@transaction.atomic
def _finished(scale: Scale, now: datetime, number: int) -> Run:
    """Write a run that differs from its sisters in its seed and its number of workers."""
    told = story(
        f"cartpole-sweep-{number}",
        scale=scale.halved,
        now=now,
        minutes_ago=1500 - 60 * number,
        minutes=45,
    )
    plan = FleetPlan(
        best=480 - 70 * number, workers=(2, 4)[number % 2], seed=number, learning_speed=6 - number
    )
    run = fleet_runs.create(told, plan)
    fleet_runs.train(run, told, plan)
    run.refresh_from_db()
    fleet_runs.complete(run, told)
    return run


@transaction.atomic
def _live(scale: Scale, clock: Clock) -> PlayedFleet:
    told = story("cartpole-live", scale=scale, now=clock(), minutes_ago=110)
    plan = FleetPlan(seed=1)
    run = fleet_runs.create(told, plan)
    fleet = fleet_runs.train(run, told, plan)
    fleet.report(at=clock(), policy_step=scale.versions - 1)
    fleet.keep_errands(at=clock(), actor=ACTOR)
    return fleet


def _tokens(now: datetime) -> None:
    """Mint a token that is good, one that was revoked and one that has expired."""
    for name, scopes, age in (
        (f"{PREFIX}trainer", ["trainer"], 0),
        (f"{PREFIX}old-environment", ["env"], 40),
        (f"{PREFIX}expired", ["user"], 90),
    ):
        token, _ = run_services.mint_token(
            name=name,
            scopes=scopes,
            expires_at=now - timedelta(days=1) if age == 90 else None,
            now=now - timedelta(days=age),
        )
        if age == 40:
            run_services.revoke_token(token_id=token.pk, actor=ACTOR, now=now)


def keep_alive(fleet: PlayedFleet, *, clock: Clock) -> None:
    """Speak for the live fleet: a report each second, and an answer to whoever asks.

    Ends when the run has another manager, or none.
    """
    random = np.random.default_rng(5)
    while True:
        now = clock()
        fleet.run.refresh_from_db()
        ended = [(SPEC, "train", np.clip(random.normal(430, 50, 6), 20, 500).round(1))]
        state = "paused" if fleet.run.status == "paused" else "running"
        try:
            fleet.report(
                at=now,
                policy_step=fleet.run.policy_step,
                returns=ended if fleet.sequence % 3 == 0 and state == "running" else [],
                state=state,
            )
        except StaleIncarnation:
            return
        fleet.answer_errands(at=now)
        time.sleep(REPORT_SECONDS)


def end_live(fleet: PlayedFleet, *, now: datetime) -> None:
    """Kill the live run, whose fleet nobody speaks for any more."""
    try:
        run_services.ask(
            run_id=fleet.run.pk,
            verb=RunVerb.KILL,
            actor="manage.py seed",
            reason="the command that played its fleet has ended",
            now=now,
        )
    except MoveNotAllowed:
        return  # somebody else has ended it
