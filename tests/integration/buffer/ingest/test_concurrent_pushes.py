"""Pushes without a key that arrive at the same time share one object and one transaction."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.concurrent_pushes import (
    WRITES_AT_ONCE,
    SinglePush,
    _group_commit,
    accept_push,
)
from buffer.ingest.services.idempotency import Claim, Retried
from buffer.ingest.services.pushes import UnknownEnvironment
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import DropReason, ItemKind
from buffer.payloads.services.contents import readable_contents
from runs.lifecycle.models import Environment, Run
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts
from tests.waiting import eventually
from web.http.push_answers import PushAnswer

pytestmark = pytest.mark.django_db(transaction=True)

TOKENS = 20_000
"""Of a sequence: two make a push that is stored as an object."""


@pytest.fixture
def run() -> Run:
    return make_outside_run(trainers=("alice",))


def join(run: Run, *, group_size: int) -> None:
    Environment.objects.create(
        run=run, env_id=0, group_size=group_size, registered_at=NOON, last_seen_at=NOON
    )


async def unsent(_: Any) -> None:
    raise AssertionError


ANSWER = PushAnswer(unsent, client_left=lambda: False, was_reset=lambda: False, arrived_at=NOON)


class Pusher(threading.Thread):
    """A thread that pushes one body, as a web process does for a client."""

    def __init__(self, run: Run, content: bytes, *, producer: str = "tests") -> None:
        super().__init__()
        self.push = SinglePush(
            body=content,
            producer=producer,
            claim=Claim.of(ANSWER, identity=producer, body=content),
        )
        self.outcome: Any = None
        self._run_name = run.name
        self.start()

    def run(self) -> None:
        try:
            self.outcome = accept_push(self._run_name, self.push)
        except Exception as error:  # noqa: BLE001 the test looks at it
            self.outcome = error
        finally:
            connection.close()


def content(mark: int, **fields: Any) -> bytes:
    return body(group(mark=mark, tokens=TOKENS, **fields))


def waiting_statements() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'")
        (count,) = cursor.fetchone()
    return int(count)


def wait_for_turns(run: Run, count: int) -> None:
    """Wait until this many pushes wait for those in progress."""
    commit = _group_commit(run.name)
    eventually(lambda: len(commit._waiting) == count, 20)


@contextmanager
def no_writes(run: Run) -> Iterator[list[Pusher]]:
    """Block the rows of groups, with as many pushes in progress as are written at once."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE buffer_trajectorygroup IN SHARE MODE")
        busy = [Pusher(run, content(900 + number)) for number in range(WRITES_AT_ONCE)]
        eventually(lambda: waiting_statements() == WRITES_AT_ONCE, 20)
        yield busy


def together(run: Run, *pushers: Callable[[], Pusher]) -> list[Any]:
    """Start pushers while no other push can be written; return their outcomes."""
    with no_writes(run) as busy:
        started = [pusher() for pusher in pushers]
        wait_for_turns(run, len(started))
    for pusher in busy + started:
        pusher.join(20)
    assert [pusher.outcome for pusher in busy] == [Receipt()] * WRITES_AT_ONCE
    return [pusher.outcome for pusher in started]


def stored(*marks: int) -> list[TrajectoryGroup]:
    """Return the groups with these marks as first tokens, in this order."""
    rows = {row.pk: row for row in TrajectoryGroup.objects.all()}
    found = readable_contents(ItemKind.GROUPS, list(rows))
    by_mark = {
        int(read.content[len(b'{"tokens": [[') :].partition(b",")[0]): rows[row_id]
        for row_id, read in found.items()
    }
    return [by_mark[mark] for mark in marks]


def test_concurrent_pushes_share_one_object(run: Run) -> None:
    outcomes = together(run, *(lambda mark=mark: Pusher(run, content(mark)) for mark in (1, 2, 3)))

    assert outcomes == [Receipt()] * 3
    assert len({row.object for row in stored(1, 2, 3)}) == 1
    assert len({row.object for row in stored(900, 901, 1)}) == 3
    assert not miscounts(run)


def test_an_invalid_push_fails_alone(run: Run) -> None:
    join(run, group_size=2)

    invalid, unknown, good = together(
        run,
        lambda: Pusher(run, b'{"tokens": [[1]]}'),
        lambda: Pusher(run, content(2, env_id=7)),
        lambda: Pusher(run, content(3, env_id=0)),
    )

    assert isinstance(invalid, InvalidBody)
    assert isinstance(unknown, UnknownEnvironment)
    assert good == Receipt()
    assert TrajectoryGroup.objects.count() == WRITES_AT_ONCE + 1
    assert not miscounts(run)


def test_equal_pushes_of_one_client_at_the_same_time_are_stored_once(run: Run) -> None:
    outcomes = together(
        run,
        lambda: Pusher(run, content(1)),
        lambda: Pusher(run, content(1)),
        lambda: Pusher(run, content(2)),
        lambda: Pusher(run, content(1), producer="another client"),
    )

    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        *["Receipt"] * 3,
        Retried.__name__,
    ]
    assert TrajectoryGroup.objects.count() == WRITES_AT_ONCE + 3
    assert not miscounts(run)


def test_partial_dropped_and_whole_groups_arrive_at_the_same_time(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(drop_zero_variance=True)
    join(run, group_size=4)
    varied = {"scores": [0.0, 1.0]}
    with no_writes(run) as busy:
        pushers = [
            Pusher(run, content(1, env_id=0, **varied)),
            Pusher(run, content(2, env_id=0, **varied)),
            Pusher(run, content(3)),
            Pusher(run, content(4, **varied)),
        ]
        wait_for_turns(run, len(pushers))
    for pusher in busy + pushers:
        pusher.join(20)

    first, second, dropped, whole = (pusher.outcome for pusher in pushers)
    assert {first.waiting_sequences, second.waiting_sequences} == {2, 0}
    assert dropped == Receipt(dropped=DropReason.ZERO_VARIANCE)
    assert whole == Receipt()
    assert not miscounts(run)
