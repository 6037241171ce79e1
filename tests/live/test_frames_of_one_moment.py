"""The parts of a frame are of one moment, and a part that fails leaves the others readable."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from runs.lifecycle.models import Run
from runs.live.services import topic_named
from tests.factories import make_run
from web.live import parts
from web.snapshots import TRIES, read_on_snapshot, snapshot

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def registered() -> Iterator[Callable[[str, Callable[[int], Any]], None]]:
    names: list[str] = []

    def register(name: str, read: Callable[[int], Any]) -> None:
        names.append(name)
        parts.PARTS[name] = read

    yield register
    for name in names:
        parts.PARTS.pop(name)


def elsewhere(act: Callable[[], Any]) -> None:
    """Run `act` in another connection, which commits."""

    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_parts_of_a_frame_exclude_a_commit_between_their_reads(registered: Any) -> None:
    def count_then_commit(_: int) -> int:
        count = Run.objects.count()
        elsewhere(lambda: make_run(name="beta"))
        return count

    run = make_run()
    registered("test_before", count_then_commit)
    registered("test_after", lambda _: Run.objects.count())

    change = topic_named(f"run:{run.name}").poll(None)

    assert change is not None
    assert (change.parts["test_before"].text, change.parts["test_after"].text) == (b"1", b"1")
    assert Run.objects.count() == 2


def test_a_failed_query_of_a_part_leaves_the_other_parts(registered: Any) -> None:
    def broken(_: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing_of_this_name")

    run = make_run()
    registered("test_broken", broken)
    registered("test_after", lambda _: Run.objects.count())

    change = topic_named(f"run:{run.name}").poll(None)

    assert change is not None
    assert "test_broken" not in change.parts
    assert change.parts["test_after"].text == b"1"


def test_a_read_that_meets_a_concurrent_change_is_repeated_on_a_new_snapshot() -> None:
    run, tries = make_run(), []

    def read() -> str:
        tries.append(Run.objects.get(pk=run.pk).status_reason)
        if len(tries) < TRIES:
            elsewhere(lambda: Run.objects.filter(pk=run.pk).update(status_reason=f"{len(tries)}"))
        Run.objects.filter(pk=run.pk).update(status_reason="mine")
        return tries[-1]

    assert read_on_snapshot(read) == f"{TRIES - 1}"
    assert len(tries) == TRIES


def test_a_read_that_meets_a_change_in_every_try_reads_without_a_snapshot() -> None:
    run = make_run()
    seen: list[str] = []

    def read() -> str:
        seen.append(Run.objects.get(pk=run.pk).status_reason)
        elsewhere(lambda: Run.objects.filter(pk=run.pk).update(status_reason=f"change {len(seen)}"))
        Run.objects.filter(pk=run.pk).update(status_reason="mine")
        return Run.objects.get(pk=run.pk).status_reason

    assert read_on_snapshot(read) == "mine"
    assert seen == ["", *(f"change {number}" for number in range(1, TRIES))]


def test_a_snapshot_inside_a_transaction_is_a_part_of_it() -> None:
    with snapshot(), snapshot():
        make_run()
    assert Run.objects.count() == 1
