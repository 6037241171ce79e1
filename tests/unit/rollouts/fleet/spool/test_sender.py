"""No fragment is lost, duplicated or reordered by outages of any length."""

import logging
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from small_platform import SmallPlatform, running, served
from spool_contents import left_in

from rolldeck.errors import InvalidRequestError, RolldeckError, UnreachableError
from rolldeck.http import Backoff
from rolldeck.wire import Fragment, FragmentReceipt, encode, pack_array
from rollouts.fleet.manager.manager import PLENTY_SECONDS
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.spool import sender as sender_module
from rollouts.fleet.spool import spool_directory
from rollouts.fleet.spool.sender import PER_REQUEST, Push, RefusalEvents, Sender
from rollouts.fleet.spool.spool_directory import (
    SEGMENT_BYTES,
    SPOOL_RETENTION_SECONDS,
    Spool,
    SpoolDirectory,
)
from tests.waiting import eventually, stays

MakeFleetSettings = Callable[..., FleetSettings]
FOR_EVER = 3600.0
NAN = InvalidRequestError(status=422, code="invalid_data", detail="arrays.obs: not finite")
FRAGMENT = msgspec.msgpack.encode({"slot": "w0-3@a", "environment": "module:lab:Maze"})
LARGE = InvalidRequestError(
    status=413, code="too_large", detail="50,000,000 bytes (max_body_bytes)"
)


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


class Taking:
    """Platform that stores the fragments of a push, after a function that may refuse or wait."""

    def __init__(self, before: Callable[[list[bytes]], object] = lambda _: None) -> None:
        self.taken: list[bytes] = []
        self.requests: list[list[bytes]] = []
        self._before = before

    def __call__(self, fragments: list[bytes]) -> FragmentReceipt:
        self._before(fragments)
        self.taken += fragments
        self.requests.append(fragments)
        return FragmentReceipt(
            accepted=len(fragments), duplicates=0, dropped={}, admission_remaining=9
        )


@contextmanager
def sending(push: Push, folder: Path, **options: Any) -> Iterator[tuple[Sender, EventLog]]:
    events = EventLog()
    sender = Sender(
        push,
        events=events,
        backoff=Backoff(first_seconds=0.05, most_seconds=0.5),
        **{"capacity": 8, "spool": Spool(folder / "spool"), **options},
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


def test_after_a_long_outage_everything_is_sent_once_in_order(
    api: Callable[[str], PlatformApi], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "REPORT_AFTER_SECONDS", 1.0)
    platform = SmallPlatform()
    with served(platform) as url:
        port = int(url.rpartition(":")[2])
        connection = api(url)
    attempts: list[int] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        attempts.append(len(fragments))
        return connection.push(fragments)

    with sending(push, tmp_path) as (sender, events):
        for number in range(300):
            sender.offer(fragment(number))
            # The outage lasts until waits between attempts have their greatest length.
            eventually(lambda number=number: len(attempts) > number // 30)
        assert sender.waiting == 300
        reported: list[str] = []
        eventually(lambda: reported.extend(event.kind for event in events.pop()) or reported)
        with served(platform, port=port):
            eventually(lambda: sender.waiting == 0)

    assert platform.order == [("w0-0@a", number) for number in range(300)]
    assert platform.duplicates == 0
    reported += [event.kind for event in events.pop()]
    assert reported == ["sending_waits", "sending_resumed"]


def test_a_lost_answer_causes_a_duplicate_that_is_stored_once(
    api: Callable[[str], PlatformApi], tmp_path: Path
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
def test_a_temporary_refusal_is_retried(
    api: Callable[[str], PlatformApi], tmp_path: Path, status: int
) -> None:
    platform = SmallPlatform()
    platform.status = status
    with served(platform) as url, sending(api(url).push, tmp_path) as (sender, _):
        sender.offer(fragment(0))
        eventually(lambda: len(platform.refused) >= 2)
        assert sender.waiting == 1
        platform.status = 0
        eventually(lambda: sender.waiting == 0)

    assert platform.order == [("w0-0@a", 0)]


def test_one_invalid_fragment_is_counted_and_the_others_are_sent(tmp_path: Path) -> None:
    gate = threading.Event()

    def refuse(fragments: list[bytes]) -> None:
        gate.wait(5.0)
        if b"bad" in fragments:
            raise InvalidRequestError(status=422, code="invalid_data", detail="bad")

    push = Taking(refuse)
    with sending(push, tmp_path) as (sender, events):
        for content in (b"one", b"two", b"bad", b"three"):
            sender.offer(content)
        gate.set()
        eventually(lambda: sender.waiting == 0)

    assert push.taken == [b"one", b"two", b"three"]
    assert (sender.refused, sender.accepted, sender.sent) == (1, 3, 4)
    assert [event.kind for event in events.pop()] == ["fragment_refused"]


def test_the_spool_of_a_dead_worker_is_sent_first(tmp_path: Path) -> None:
    left = Spool(tmp_path / "r" / "another")
    for content in (b"1", b"2"):
        left.append(content)
    left.close()
    push = Taking()
    inherit = SpoolDirectory(tmp_path, "r").next_orphaned_spool
    with sending(push, tmp_path, inherit=inherit) as (sender, events):
        sender.offer(b"3")
        eventually(lambda: push.taken == [b"1", b"2", b"3"] and sender.waiting == 0)
        eventually(lambda: not (tmp_path / "r" / "another").exists())

    assert [event.kind for event in events.pop()] == ["spool_inherited"]


def test_a_full_queue_is_reported(tmp_path: Path) -> None:
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


def test_unsent_fragments_are_kept_at_the_end(tmp_path: Path) -> None:
    sender = Sender(
        lambda _: FragmentReceipt(accepted=0, duplicates=0, dropped={}, admission_remaining=0),
        spool=Spool(tmp_path / "spool"),
        capacity=2,
        events=EventLog(),
    )
    sender.offer(b"1")
    sender.save()

    inherited = Spool.inherit(tmp_path / "spool")
    assert inherited is not None
    assert inherited.oldest(9) == [b"1"]


def test_a_spool_is_inherited_once_and_only_when_its_worker_is_gone(tmp_path: Path) -> None:
    estate = SpoolDirectory(tmp_path, "r")
    alive = Spool(estate.folder / "w0")
    alive.append(b"1")
    assert estate.next_orphaned_spool() is None

    alive.close()
    heir = estate.next_orphaned_spool()
    assert heir is not None
    assert estate.next_orphaned_spool() is None
    assert SpoolDirectory(tmp_path, "another run").next_orphaned_spool() is None

    heir.remove_oldest()
    heir.close()
    assert not heir.folder.exists()


def test_abandoned_spools_are_removed_after_a_day(tmp_path: Path) -> None:
    for name in ("old", "young"):
        left = Spool(tmp_path / name / "w0")
        left.append(b"1")
        left.close()
    spool = Spool(tmp_path / "old" / "alive")
    spool.append(b"2")
    now = time.time()
    for path in (tmp_path / "old").rglob("*"):
        os.utime(path, (now - SPOOL_RETENTION_SECONDS - 1,) * 2)

    assert SpoolDirectory(tmp_path, "mine").sweep(now) == 1
    assert not (tmp_path / "old" / "w0").exists()
    assert (tmp_path / "young" / "w0").exists()
    assert spool.oldest(1) == [b"2"]


def test_a_truncated_fragment_is_counted_and_the_others_are_sent(tmp_path: Path) -> None:
    left = Spool(tmp_path / "r" / "another")
    for content in (b"1", b"22", b"333"):
        left.append(content)
    left.close()
    [path] = left.folder.iterdir()
    # Truncated as by a kill during the last write.
    os.truncate(path, path.stat().st_size - 1)
    push = Taking()
    inherit = SpoolDirectory(tmp_path, "r").next_orphaned_spool
    with sending(push, tmp_path, inherit=inherit) as (sender, events):
        eventually(lambda: push.taken == [b"1", b"22"])
        eventually(lambda: sender.waiting == 0)

    assert sender.lost == 1
    assert "spool_damaged" in [event.kind for event in events.pop()]


def away(_: list[bytes]) -> FragmentReceipt:
    raise UnreachableError(status=0, code="unreachable", detail="away")


def test_during_an_outage_every_fragment_is_on_the_disk_at_once(tmp_path: Path) -> None:
    with sending(away, tmp_path) as (sender, _):
        sender.offer(b"0")
        eventually(lambda: (tmp_path / "spool").exists())
        for number in range(1, 5):
            sender.offer(str(number).encode())
            assert left_in(tmp_path)[-1] == str(number).encode()
        assert sender.waiting == 5


def test_fragments_behind_a_hanging_request_are_written_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "OUTAGE_AFTER_SECONDS", 0.2)
    gate = threading.Event()
    push = Taking(lambda _: gate.wait(60.0))
    with sending(push, tmp_path, capacity=1) as (sender, _):
        sender.offer(b"0")
        assert not sender.has_room()
        eventually(sender.has_room)  # the request has lasted so long that it counts as an outage
        sender.offer(b"1")
        assert left_in(tmp_path) == [b"0", b"1"]
        gate.set()
        eventually(lambda: sender.waiting == 0)

    assert push.taken == [b"0", b"1"]


def test_a_full_disk_does_not_change_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(b"1")
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, allowed[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            spool.append(b"2" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    spool.append(b"3")

    assert spool.oldest(9) == left_in(tmp_path) == [b"1", b"3"]


def test_a_spool_leaves_free_space_on_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(b"1" * (SEGMENT_BYTES - 1))
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(spool_directory, "FREE_BYTES", free * 2)
    monkeypatch.setattr(spool_directory, "FREE_SHARE", 2.0)

    assert spool.has_room()  # of one segment
    spool.append(b"2")
    assert not spool.has_room()
    monkeypatch.setattr(spool_directory, "FREE_SHARE", 0.0)
    assert spool.has_room()


def test_a_spool_of_many_files_keeps_its_order_through_kills_and_deletes_sent_ones(
    tmp_path: Path,
) -> None:
    contents = [bytes([number]) * (SEGMENT_BYTES // 3) for number in range(10)]
    spool = Spool(tmp_path / "spool")
    for content in contents:
        spool.append(content)
    assert len(list(spool.folder.iterdir())) == 4
    # More than fits into memory: the last ones are read from files.
    assert spool.oldest(10) == contents
    for _ in range(4):
        spool.remove_oldest()
    assert len(list(spool.folder.iterdir())) == 3
    spool.close()

    for _ in range(2):
        heir = Spool.inherit(tmp_path / "spool")
        assert heir is not None
        heir.remove_oldest()
        heir.close()

    assert left_in(tmp_path) == contents[6:]


def test_the_age_of_a_spool_counts_from_its_last_fragment(tmp_path: Path) -> None:
    left = Spool(tmp_path / "r" / "w0")
    left.append(b"1")
    now = time.time()
    # The folder's time is that of its last new file.
    os.utime(left.folder, (now - SPOOL_RETENTION_SECONDS - 1,) * 2)
    left.append(b"2")
    left.close()

    assert SpoolDirectory(tmp_path, "mine").sweep(now) == 0
    assert left_in(tmp_path) == [b"1", b"2"]


def test_an_unwritable_disk_is_an_event_and_stops_new_fragments(tmp_path: Path) -> None:
    in_the_way = tmp_path / "disk"
    in_the_way.write_bytes(b"")
    is_away = True
    push = Taking(lambda fragments: away(fragments) if is_away else None)

    with sending(push, tmp_path, spool=Spool(in_the_way / "spool")) as (sender, events):
        sender.offer(b"1")
        eventually(lambda: not sender.has_room())
        sender.offer(b"2")
        sender.offer(b"3")
        assert sender.waiting == 3
        assert not sender.has_room()

        in_the_way.unlink()
        eventually(lambda: left_in(tmp_path) == [b"1", b"2", b"3"])
        assert sender.has_room()
        is_away = False
        eventually(lambda: sender.waiting == 0)

    assert push.taken == [b"1", b"2", b"3"]
    assert [event.kind for event in events.pop()] == ["spool_failed"]


def test_the_first_fragment_waits_for_those_cut_right_behind_it(tmp_path: Path) -> None:
    taken = Taking()
    with sending(taken, tmp_path, capacity=999, gather_seconds=1.0) as (sender, _):
        sender.offer(b"first")
        stays(lambda: not taken.requests, 0.05)
        sender.offer(b"second")
        eventually(lambda: taken.requests)

    assert taken.requests == [[b"first", b"second"]]


def test_a_full_request_is_sent_at_once(tmp_path: Path) -> None:
    taken = Taking()
    spool = Spool(tmp_path / "spool")
    sender = Sender(taken, spool=spool, capacity=999, events=EventLog(), gather_seconds=FOR_EVER)
    for _ in range(PER_REQUEST):
        sender.offer(b"one")
    turn = threading.Thread(target=sender.turn, daemon=True)
    turn.start()
    eventually(lambda: not sender.waiting)

    assert [len(request) for request in taken.requests] == [PER_REQUEST]


def test_remaining_fragments_of_an_ended_worker_are_sent_at_once(tmp_path: Path) -> None:
    taken = Taking()
    spool = Spool(tmp_path / "spool")
    sender = Sender(taken, spool=spool, capacity=999, events=EventLog(), gather_seconds=FOR_EVER)
    sender.offer(b"last")
    sender.close()
    turn = threading.Thread(target=sender.turn, daemon=True)
    turn.start()
    turn.join(20.0)

    assert taken.requests == [[b"last"]]


def test_a_manager_with_much_room_does_not_request_credits_for_each_fragment(
    make_settings: MakeFleetSettings, caplog: pytest.LogCaptureFixture
) -> None:
    def request_count() -> int:
        return sum("/fleet/control?" in record.getMessage() for record in caplog.records)

    caplog.set_level(logging.DEBUG, "urllib3.connectionpool")
    with running(make_settings, room=1_000_000, num_workers=1) as platform:
        eventually(lambda: len(platform.fragments) > 20, 60.0)
        before, received, began = request_count(), len(platform.fragments), time.monotonic()
        eventually(lambda: len(platform.fragments) > received + 200, 120.0)
        times, seconds = request_count() - before, time.monotonic() - began

    # One wait that ended, and one read of the current state.
    assert 0 < times <= 2 * (seconds / PLENTY_SECONDS + 2)


class Refusals:
    """Refusals on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = EventLog()
        self.counted = RefusalEvents(self.events, clock=lambda: self.now)

    def add(self, failure: RolldeckError, *, fragments: int) -> None:
        for _ in range(fragments):
            self.counted.add(failure, FRAGMENT)

    def reported(self) -> list[tuple[str, int]]:
        return [(one.details["reason"], one.details["fragments"]) for one in self.events.pop()]


def test_many_refusals_make_one_event_per_reason_and_minute() -> None:
    refusals = Refusals()

    refusals.add(NAN, fragments=971)
    refusals.counted.report()
    assert refusals.reported() == [("invalid_data", 1)]

    refusals.now = 59.0
    refusals.add(LARGE, fragments=3)
    refusals.counted.report()
    assert refusals.reported() == [("too_large", 1)]

    refusals.now = 60.0
    refusals.counted.report()
    assert refusals.reported() == [("invalid_data", 970)]

    refusals.now = 200.0
    refusals.counted.report()
    refusals.counted.report()
    assert refusals.reported() == [("too_large", 2)]


def test_an_event_has_the_newest_message_and_the_last_ones_are_reported_at_the_end() -> None:
    refusals = Refusals()
    refusals.add(NAN, fragments=3)

    refusals.counted.report(is_last=True)

    first, last = refusals.events.pop()
    assert first.message == (
        "The platform refused a fragment permanently: arrays.obs: not finite [422 invalid_data]"
    )
    assert last.message.startswith("The platform refused 2 fragments permanently: arrays.obs")
    assert (last.kind, last.level) == ("fragment_refused", "error")
    assert (last.details["slot"], last.details["environment"]) == ("w0-3@a", "module:lab:Maze")
