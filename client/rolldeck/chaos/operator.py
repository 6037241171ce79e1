"""Operator of the workload: pauses, resumes and drains runs at a low rate."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

import msgspec

from rolldeck.chaos.history import History
from rolldeck.chaos.workload import (
    IDLE_SECONDS,
    LEASE_SECONDS,
    RETRY_SECONDS,
    ClientPlan,
    Pusher,
    acknowledge,
    connection_of,
    is_over,
    lease,
    parent_is_gone,
    recorded,
)
from rolldeck.client import ENDED, Client
from rolldeck.errors import RolldeckError
from rolldeck.http import Call
from rolldeck.trainer import Trainer

PAUSED_SECONDS: Final = 2.0
INTERVAL_SECONDS: Final = 8.0
DRAINED_GROUPS: Final = 5
"""Groups of a run that the operator drains: two batches and a rest."""
DRAINED_SEQUENCES: Final = 4
UNTIL_DRAINED_SECONDS: Final = 120.0


def operate(plan: ClientPlan, history: History) -> None:
    """Pause and resume runs, and drain small ones, until the workload ends."""
    chance = random.Random(plan.seed)  # noqa: S311 a seeded workload
    client = Client(connection=connection_of(plan))
    for number in count():
        time.sleep(chance.uniform(0.5, 1.5) * INTERVAL_SECONDS)
        if is_over(plan):
            return
        name = chance.choice(plan.others)
        for verb in ("pause", "resume"):
            _insist(history, verb, name, partial(_act, client, name, verb))
            time.sleep(PAUSED_SECONDS)
        drain(plan, history, client, f"{plan.run}-{number}")


def _act(client: Client, name: str, verb: str) -> None:
    getattr(client.runs.get(name), verb)("chaos")


def _insist(history: History, op: str, run: str, act: Callable[[], object]) -> None:
    """Repeat a call of an operator until the platform has answered it."""
    while True:
        try:
            with recorded(history, op, run=run) as end:
                act()
                end()
                return
        except RolldeckError as error:
            if (400 <= error.status < 500 and error.status != 429) or parent_is_gone():
                return  # an attempt without an answer was the one
            time.sleep(RETRY_SECONDS)


def drain(plan: ClientPlan, history: History, client: Client, name: str) -> None:
    """Create a run, push some groups, drain it, and train until it is completed."""
    connection, path = client.connection, f"/api/v1/runs/{name}"
    body = {"batch_size": DRAINED_SEQUENCES, "lease_seconds": LEASE_SECONDS}
    call = Call(method="PATCH", path=path, json=body)
    _insist(history, "create", name, lambda: client.runs.create(name, kind="outside"))
    _insist(history, "create", name, lambda: connection.json(call))
    own = msgspec.structs.replace(plan, run=name, role="json", atropos=f"/atropos/{name}")
    pusher = Pusher(own, history)
    for _ in range(DRAINED_GROUPS):
        pusher.push(1)
    _insist(history, "drain", name, partial(_act, client, name, "drain"))
    drained = history.begin("drained", run=name)
    deadline = time.monotonic() + UNTIL_DRAINED_SECONDS
    trainer = Trainer(run=name, name="chaos", connection=connection)
    status = ""
    while status not in ENDED and time.monotonic() < deadline:
        with suppress(RolldeckError):
            status = client.runs.get(name).status
            if trainer.registration is None:
                trainer.register(resume=True)
            batch = lease(own, history, trainer)
            if batch is not None:
                acknowledge(own, history, trainer, batch)
        time.sleep(IDLE_SECONDS)
    is_completed = status == "completed"
    history.end("drained", drained, "ok" if is_completed else "unknown", run=name, text=status)
