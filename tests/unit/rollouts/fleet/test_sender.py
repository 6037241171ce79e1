"""No fragment is lost, doubled or overtaken, however long the platform is away."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_platform import SmallPlatform, served

from rolldeck.errors import InvalidRequest
from rolldeck.http import Backoff
from rolldeck.wire import Fragment, FragmentReceipt, encode, pack_array
from rollouts.fleet.loops import EventLog, Loop
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.sender import Push, Sender
from rollouts.fleet.settings import FleetSettings
from rollouts.fleet.spool import Spool

Eventually = Callable[..., None]


def fragment(number: int) -> bytes:
    return encode(
        Fragment(
            slot="w0-0@a",
            number=number,
            contiguous=number > 0,
            environment="gymnasium:X-v0",
            worker="w0@a",
            epoch=1,
            version_min=0,
            version_max=0,
            steps=1,
            episode_ids=["e"],
            arrays={"obs": pack_array(np.zeros((1, 4), dtype=np.float32))},
        )
    )


@contextmanager
def sending(push: Push, folder: Path, **options: Any) -> Iterator[tuple[Sender, EventLog]]:
    events = EventLog()
    sender = Sender(
        push,
        spool=Spool(folder / "spool"),
        events=events,
        backoff=Backoff(first_seconds=0.05, most_seconds=0.5),
        **{"capacity": 8, **options},
    )
    loop = Loop("sending", sender.turn, events)
    loop.start()
    try:
        yield sender, events
    finally:
        loop.stop()
        sender.close()
        loop.join(5.0)


@pytest.fixture
def api(make_settings: Callable[..., FleetSettings]) -> Iterator[Callable[[str], PlatformApi]]:
    made: list[PlatformApi] = []

    def make(url: str) -> PlatformApi:
        made.append(PlatformApi(make_settings(url=url)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_platform_that_is_away_for_ten_seconds_gets_everything_once_and_in_order(
    api: Callable[[str], PlatformApi], tmp_path: Path, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        port = int(url.rpartition(":")[2])
        connection = api(url)
    with sending(connection.push, tmp_path) as (sender, events):
        started = time.monotonic()
        for number in range(300):
            sender.offer(fragment(number))
            time.sleep(10 / 300)
        assert time.monotonic() - started >= 10
        assert sender.waiting == 300
        with served(platform, port=port):
            eventually(lambda: sender.waiting == 0, 10.0)

    assert platform.order == [("w0-0@a", number) for number in range(300)]
    assert platform.duplicates == 0
    kinds = [event.kind for event in events.take()]
    assert kinds == ["sending_waits", "sending_resumed"]


def test_a_lost_answer_makes_a_duplicate_that_is_stored_once(
    api: Callable[[str], PlatformApi], tmp_path: Path, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.loses_answers = True
    with served(platform) as url, sending(api(url).push, tmp_path) as (sender, _):
        sender.offer(fragment(0))
        eventually(lambda: platform.order)
        platform.loses_answers = False
        eventually(lambda: sender.waiting == 0)

    assert platform.order == [("w0-0@a", 0)]
    assert platform.duplicates >= 1


@pytest.mark.parametrize("status", [401, 409, 429, 500, 503])
def test_a_refusal_that_may_pass_is_waited_for(
    api: Callable[[str], PlatformApi], tmp_path: Path, eventually: Eventually, status: int
) -> None:
    platform = SmallPlatform()
    platform.status = status
    with served(platform) as url, sending(api(url).push, tmp_path) as (sender, _):
        sender.offer(fragment(0))
        time.sleep(0.3)
        assert sender.waiting == 1
        platform.status = 0
        eventually(lambda: sender.waiting == 0)

    assert platform.order == [("w0-0@a", 0)]


def test_one_bad_fragment_is_counted_and_the_others_get_through(
    tmp_path: Path, eventually: Eventually
) -> None:
    taken: list[bytes] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        if b"bad" in fragments:
            raise InvalidRequest(status=422, code="invalid_data", detail="bad")
        taken.extend(fragments)
        return FragmentReceipt(
            accepted=len(fragments), duplicates=0, dropped={}, admission_remaining=9
        )

    gate = threading.Event()

    def gated(fragments: list[bytes]) -> FragmentReceipt:
        gate.wait(5.0)
        return push(fragments)

    with sending(gated, tmp_path) as (sender, events):
        for content in (b"one", b"two", b"bad", b"three"):
            sender.offer(content)
        gate.set()
        eventually(lambda: sender.waiting == 0)

    assert taken == [b"one", b"two", b"three"]
    assert (sender.refused, sender.accepted, sender.sent) == (1, 3, 4)
    assert [event.kind for event in events.take()] == ["fragment_refused"]


def test_what_a_dead_worker_left_in_its_spool_goes_out_first(
    tmp_path: Path, eventually: Eventually
) -> None:
    left = Spool(tmp_path / "spool")
    for content in (b"1", b"2"):
        left.append(content)
    taken: list[bytes] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        taken.extend(fragments)
        return FragmentReceipt(accepted=1, duplicates=0, dropped={}, admission_remaining=9)

    with sending(push, tmp_path) as (sender, _):
        sender.offer(b"3")
        eventually(lambda: sender.waiting == 0)

    assert taken == [b"1", b"2", b"3"]


def test_a_full_queue_says_so(tmp_path: Path) -> None:
    events = EventLog()
    sender = Sender(
        lambda _: FragmentReceipt(accepted=0, duplicates=0, dropped={}, admission_remaining=0),
        spool=Spool(tmp_path / "spool"),
        capacity=2,
        events=events,
    )
    sender.offer(b"1")
    assert sender.has_room()
    sender.offer(b"2")

    assert not sender.has_room()


def test_what_is_left_at_the_end_is_kept(tmp_path: Path) -> None:
    sender = Sender(
        lambda _: FragmentReceipt(accepted=0, duplicates=0, dropped={}, admission_remaining=0),
        spool=Spool(tmp_path / "spool"),
        capacity=2,
        events=EventLog(),
    )
    sender.offer(b"1")
    sender.save()

    assert Spool(tmp_path / "spool").oldest(9) == [b"1"]
