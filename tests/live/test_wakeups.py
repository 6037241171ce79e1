import threading
import time
from itertools import pairwise
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import transaction

from tests.waiting import eventually, stays
from web.live import wakeups
from web.live.announcements import (
    CHANNEL,
    NO_LISTENER_SECONDS,
    ChangeNotice,
    Outbox,
    Publisher,
    announce,
    own_subscriptions,
)


def listening() -> None:
    """Wait until the subscriber of this process receives published notices."""
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    wakeups.mark(0)
    eventually(lambda: dict(client.pubsub_numsub(CHANNEL)).get(CHANNEL.encode()), 20)
    client.close()


def notice(run_id: int) -> None:
    publisher = Publisher(django_settings.REDIS_URL)
    publisher.publish(ChangeNotice(run=run_id, parts=["queue"]))
    publisher.close()


def test_a_waiting_request_is_woken_by_an_announcement_within_milliseconds() -> None:
    listening()
    taken = wakeups.mark(7)
    threading.Timer(0.2, notice, [7]).start()

    began = time.monotonic()
    woken = wakeups.wait(taken, 5)

    assert woken
    assert 0.1 < time.monotonic() - began < 3


def test_an_announcement_between_the_check_and_the_wait_is_not_missed() -> None:
    listening()
    taken = wakeups.mark(8)
    notice(8)
    assert wakeups.wait(taken, 5)

    began = time.monotonic()
    assert wakeups.wait(taken, 5)

    assert time.monotonic() - began < 3


def test_a_change_of_another_run_wakes_no_waiter() -> None:
    listening()
    taken = wakeups.mark(9)
    notice(10)

    assert not wakeups.wait(taken, 0.3)


def test_a_subscriber_whose_connection_was_cut_wakes_all_and_listens_again() -> None:
    listening()
    taken = wakeups.mark(14)
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    client.close()

    assert wakeups.wait(taken, 10), "a notice may have been missed meanwhile"
    listening()
    taken = wakeups.mark(14)
    notice(14)

    assert wakeups.wait(taken, 5)


def test_without_redis_a_wait_ends_when_its_time_is_over(settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/else.sock"
    taken = wakeups.mark(11)

    assert not wakeups.wait(taken, 0.2)


def test_publishing_without_redis_neither_raises_nor_waits() -> None:
    publisher = Publisher("unix:///nowhere/valkey.sock")

    began = time.monotonic()
    for _ in range(100):
        publisher.publish(ChangeNotice(run=1, parts=["run"]))

    assert time.monotonic() - began < 5


@pytest.mark.django_db(transaction=True)
def test_a_change_is_announced_when_it_is_committed_and_not_before() -> None:
    listening()
    taken = wakeups.mark(12)

    with transaction.atomic():
        announce(12, "run")
        assert not wakeups.wait(taken, 0.2)

    assert wakeups.wait(taken, 5)


@pytest.mark.django_db(transaction=True)
def test_a_change_that_was_rolled_back_is_never_announced() -> None:
    listening()
    taken = wakeups.mark(13)

    with transaction.atomic():
        announce(13, "run")
        transaction.set_rollback(True)

    assert not wakeups.wait(taken, 0.3)


@pytest.mark.django_db(transaction=True)
def test_a_change_of_this_process_is_received_here_without_redis(settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/third.sock"
    taken = wakeups.mark(15)

    announce(15, "run")

    assert wakeups.wait(taken, 5)


@pytest.mark.django_db(transaction=True)
def test_a_change_of_this_process_is_received_once() -> None:
    listening()
    received: list[ChangeNotice] = []
    wakeups.subscriber().add(lambda notice: received.append(notice) if notice else None)

    announce(16, "run")
    announce(17, "run")

    def runs() -> list[int]:
        return [notice.run for notice in received if notice.run in {16, 17}]

    eventually(lambda: len(runs()) >= 2, 20)
    # The broker returns both notices later, at most one batch time after they were sent.
    stays(lambda: runs() == [16, 17], 4 * NO_LISTENER_SECONDS)


class Broker(Publisher):
    """A broker with a given number of listeners that records the times of its notices."""

    def __init__(self, listeners: int) -> None:
        self.listeners = listeners
        self.published: list[tuple[float, ChangeNotice]] = []

    def publish(self, notice: ChangeNotice) -> int:
        self.published.append((time.monotonic(), notice))
        return self.listeners


def shortest_pause(*, listeners: int) -> float:
    """Return the minimum time between two notices of a run that changes constantly."""
    broker = Broker(listeners)
    outbox = Outbox(broker, origin="here")
    until = time.monotonic() + 20
    while len(broker.published) < 6 and time.monotonic() < until:
        outbox.add(ChangeNotice(run=15, parts=["queue"]))
        time.sleep(0.001)
    return min(later - earlier for (earlier, _), (later, _) in pairwise(broker.published))


def test_merged_notices_have_the_newest_commit_time() -> None:
    broker = Broker(own_subscriptions.count)
    outbox = Outbox(broker, origin="here")
    for _ in range(2):
        for committed_at, part in ((31.0, "queue"), (32.5, "run")):
            outbox.add(ChangeNotice(run=16, parts=[part], committed_at=committed_at))
        time.sleep(0.01)
    until = time.monotonic() + 20
    together: list[ChangeNotice] = []
    while not together and time.monotonic() < until:
        time.sleep(0.01)
        together = [notice for _, notice in broker.published if len(notice.parts) > 1]

    assert [notice.committed_at for notice in together[:1]] == [32.5]


def test_notices_are_less_frequent_without_other_listeners() -> None:
    own = own_subscriptions.count

    assert shortest_pause(listeners=own) >= NO_LISTENER_SECONDS
    assert shortest_pause(listeners=own + 1) < NO_LISTENER_SECONDS
