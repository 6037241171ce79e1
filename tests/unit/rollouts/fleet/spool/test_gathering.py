"""Simultaneous fragments and requests are sent in one request."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_platform import SmallPlatform, served

from rolldeck.wire import FragmentReceipt
from rollouts.fleet.manager.manager import PLENTY_SECONDS, LocalFleet
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.spool.sender import PER_REQUEST, Sender
from rollouts.fleet.spool.spool_directory import Spool
from tests.waiting import stays

Eventually = Callable[..., None]
MakeFleetSettings = Callable[..., FleetSettings]
FOR_EVER = 3600.0


class Taken:
    """Records all pushes."""

    def __init__(self) -> None:
        self.requests: list[list[bytes]] = []

    def __call__(self, fragments: list[bytes]) -> FragmentReceipt:
        self.requests.append(fragments)
        return FragmentReceipt(
            accepted=len(fragments), duplicates=0, dropped={}, admission_remaining=9
        )


@contextmanager
def sender_to(taken: Taken, folder: Path, *, gather_seconds: float) -> Iterator[Sender]:
    events = EventLog()
    sender = Sender(
        taken, spool=Spool(folder), capacity=999, events=events, gather_seconds=gather_seconds
    )
    loop = Loop("sending", sender.turn, events)
    loop.start()
    try:
        yield sender
    finally:
        loop.stop()
        sender.close()
        loop.join(5.0)


def test_the_first_fragment_waits_for_those_cut_right_behind_it(
    tmp_path: Path, eventually: Eventually
) -> None:
    taken = Taken()
    with sender_to(taken, tmp_path / "spool", gather_seconds=1.0) as sender:
        sender.offer(b"first")
        stays(lambda: not taken.requests, 0.05)
        sender.offer(b"second")
        eventually(lambda: taken.requests)

    assert taken.requests == [[b"first", b"second"]]


def test_a_full_request_is_sent_at_once(tmp_path: Path, eventually: Eventually) -> None:
    taken = Taken()
    spool = Spool(tmp_path / "spool")
    sender = Sender(taken, spool=spool, capacity=999, events=EventLog(), gather_seconds=FOR_EVER)
    for _ in range(PER_REQUEST):
        sender.offer(b"one")
    turn = threading.Thread(target=sender.turn, daemon=True)
    turn.start()
    eventually(lambda: not sender.waiting)

    assert [len(request) for request in taken.requests] == [PER_REQUEST]


def test_remaining_fragments_of_an_ended_worker_are_sent_at_once(tmp_path: Path) -> None:
    taken = Taken()
    spool = Spool(tmp_path / "spool")
    sender = Sender(taken, spool=spool, capacity=999, events=EventLog(), gather_seconds=FOR_EVER)
    sender.offer(b"last")
    sender.close()
    turn = threading.Thread(target=sender.turn, daemon=True)
    turn.start()
    turn.join(20.0)

    assert taken.requests == [[b"last"]]


def test_a_manager_with_much_room_does_not_request_credits_for_each_fragment(
    make_settings: MakeFleetSettings,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def request_count() -> int:
        return sum("/fleet/control?" in record.getMessage() for record in caplog.records)

    caplog.set_level(logging.INFO, "httpx")
    platform = SmallPlatform(room=1_000_000)
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=1)):
        eventually(lambda: len(platform.fragments) > 20, 60.0)
        before, received, began = request_count(), len(platform.fragments), time.monotonic()
        eventually(lambda: len(platform.fragments) > received + 200, 120.0)
        times, seconds = request_count() - before, time.monotonic() - began

    # One wait that ended, and one read of the current state.
    assert times <= 2 * (seconds / PLENTY_SECONDS + 2)
