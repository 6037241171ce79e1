"""Followers read everything once and in one order, whenever transactions commit."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import msgspec
import pytest
from django.db import connection, transaction

from buffer.batches.services.expiry import drop_open
from buffer.followers import queries, services
from buffer.followers.models import Follower
from buffer.followers.rules import InvalidCursor
from buffer.followers.services import (
    CursorBehind,
    Filter,
    FollowerExists,
    Start,
    confirm_read,
    unfollow,
)
from buffer.ingest.services.pushes import accept_fragments
from buffer.items.models import FragmentChunk
from buffer.items.services import SHARDS
from buffer.payloads.models import Segment
from buffer.payloads.services.partitions import clear_current_segment, current_segment
from rolldeck import wire
from runs.lifecycle.models import Run
from tests.buffer_factories import fragment
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    # The segment of an earlier test is gone. One transaction opens the next, and others wait.
    clear_current_segment()
    current_segment()
    run = make_run()
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
    return Run.objects.get(pk=run.pk)


def add(run: Run, *numbers: int, **fields: Any) -> None:
    fragments = [fragment(number=number, **fields) for number in numbers]
    accept_fragments(
        run=run, fragments=[(fragment, wire.encode(fragment)) for fragment in fragments], now=NOON
    )


def follow(run: Run, name: str = "eve", *, start: Start = "earliest", **only: Any) -> Follower:
    return services.follow(run=run, name=name, start=start, only=Filter(**only), now=NOON)


def read(run: Run, name: str = "eve", *, count: int = 100) -> list[int]:
    """Return the numbers of the fragments that come next, and confirm them."""
    stretch = queries.read_on(run, queries.named(run, name), count=count)
    if stretch is None:
        return []
    confirm_read(run=run, name=name, cursor=stretch.cursor.token(), now=NOON)
    return [
        msgspec.msgpack.decode(content.content, type=wire.Fragment).number
        for content in stretch.contents
    ]


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], None]], "Elsewhere"]]:
    """Run a function in a transaction of another connection, which stays open until released."""
    with ThreadPoolExecutor(4) as pool:
        yield lambda work: Elsewhere(pool, work)


def shard() -> int:
    """Return the shard of the counts that this connection adds to."""
    connection.ensure_connection()
    pid: int = connection.connection.info.backend_pid
    return pid % SHARDS


class Elsewhere:
    """A transaction that has done its work and waits to commit.

    It adds to other shards of the counts than this thread, which so need not wait for it.
    """

    def __init__(self, pool: ThreadPoolExecutor, work: Callable[[], None]) -> None:
        self._ours = shard()
        self._worked, self._may_commit = Event(), Event()
        self._done = pool.submit(self._transact, work)
        assert self._worked.wait(10)

    def _transact(self, work: Callable[[], None]) -> None:
        try:
            while shard() == self._ours:
                connection.close()
            with transaction.atomic():
                work()
                self._worked.set()
                assert self._may_commit.wait(10)
        finally:
            connection.close()

    def commit(self) -> None:
        self._may_commit.set()
        self._done.result(10)


def test_a_follower_reads_everything_in_order_and_removes_nothing(run: Run) -> None:
    add(run, 0, 1)
    add(run, 2)
    follow(run)

    assert read(run, count=2) == [0, 1]
    assert read(run) == [2]
    assert read(run) == []
    assert set(FragmentChunk.objects.values_list("state", flat=True)) == {"queued"}


def test_unacknowledged_items_are_served_again(run: Run) -> None:
    add(run, 0)
    eve = follow(run)

    first, again = (queries.read_on(run, eve, count=1) for _ in "ab")

    assert first is not None
    assert first == again


def test_followers_are_independent(run: Run) -> None:
    add(run, 0, 1)
    follow(run, "eve")
    follow(run, "mallory")

    assert read(run, "eve") == [0, 1]
    assert queries.lag(run, queries.named(run, "mallory")) == 2
    assert read(run, "mallory") == [0, 1]


def test_a_row_that_commits_later_with_a_smaller_id_is_not_skipped(
    run: Run, elsewhere: Callable[[Callable[[], None]], Elsewhere]
) -> None:
    follow(run)
    slow = elsewhere(lambda: add(run, 0))
    add(run, 1)

    # Number 1 is committed, but 0 has the smaller id and can still come before it.
    assert read(run) == []
    slow.commit()

    assert read(run) == [0, 1]


def test_a_row_that_commits_later_with_a_greater_transaction_and_smaller_id_is_not_skipped(
    run: Run, elsewhere: Callable[[Callable[[], None]], Elsewhere]
) -> None:
    follow(run)

    def old_transaction_writes_late() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")

    # The transaction has its number now and writes nothing; those after it must still wait.
    idle = elsewhere(old_transaction_writes_late)
    slow = elsewhere(lambda: add(run, 0))
    add(run, 1)
    idle.commit()
    assert read(run) == []
    slow.commit()

    assert read(run) == [0, 1]


def test_a_failed_transaction_delays_followers_only_briefly(
    run: Run, elsewhere: Callable[[Callable[[], None]], Elsewhere]
) -> None:
    follow(run)

    def fail() -> None:
        add(run, 0)
        transaction.set_rollback(True)

    failing = elsewhere(fail)
    add(run, 1)
    failing.commit()

    assert read(run) == [1]


def test_a_follower_from_latest_omits_earlier_items(run: Run) -> None:
    add(run, 0)
    follow(run, start="latest")
    add(run, 1)

    assert read(run) == [1]


def test_a_recreated_follower_keeps_its_cursor(run: Run) -> None:
    add(run, 0)
    follow(run)
    read(run)
    add(run, 1)

    follow(run)

    assert read(run) == [1]
    with pytest.raises(FollowerExists):
        follow(run, environment="other")


def test_items_of_every_state_except_late_ones_are_read(run: Run) -> None:
    add(run, 0)
    add(run, 1, epoch=0)
    drop_open(run_id=run.pk, reason="killed", now=NOON)
    follow(run)

    assert read(run) == [0]


def test_items_without_bytes_are_skipped(run: Run) -> None:
    add(run, 0)
    follow(run)
    number = FragmentChunk.objects.get().segment
    dropped = {"opened_at": NOON, "sealed_at": NOON, "dropped_at": NOON}
    Segment.objects.update_or_create(number=number, defaults=dropped)

    assert read(run) == []
    assert queries.lag(run, queries.named(run, "eve")) == 0


def test_a_follower_may_read_one_environment_only(run: Run) -> None:
    add(run, 0)
    add(run, 0, slot="other", environment="other")
    follow(run, environment="other")

    assert queries.lag(run, queries.named(run, "eve")) == 1
    assert read(run) == [0]


def test_an_older_cursor_is_refused_and_the_same_one_accepted(run: Run) -> None:
    add(run, 0, 1)
    eve = follow(run)
    first = queries.read_on(run, eve, count=1)
    both = queries.read_on(run, eve, count=2)
    assert first is not None
    assert both is not None

    for _ in range(2):
        confirm_read(run=run, name="eve", cursor=both.cursor.token(), now=NOON)
    with pytest.raises(CursorBehind):
        confirm_read(run=run, name="eve", cursor=first.cursor.token(), now=NOON)


@pytest.mark.parametrize(
    "cursor", ["", "1", "1-", "x-1", "1-2-3", "9" * 30 + "-1", "1-999999", "\uff11-1"]
)
def test_a_cursor_that_names_no_item_is_refused(run: Run, cursor: str) -> None:
    follow(run)

    with pytest.raises(InvalidCursor):
        confirm_read(run=run, name="eve", cursor=cursor, now=NOON)


def test_a_deleted_follower_is_not_found(run: Run) -> None:
    follow(run)
    unfollow(run=run, name="eve")

    with pytest.raises(queries.FollowerNotFound):
        queries.named(run, "eve")
    with pytest.raises(queries.FollowerNotFound):
        unfollow(run=run, name="eve")
