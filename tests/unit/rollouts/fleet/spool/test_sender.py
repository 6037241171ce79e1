"""No fragment is lost, duplicated or reordered by outages of any length."""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_platform import SmallPlatform, served
from spool_contents import left_in

from rolldeck.errors import InvalidRequest, Unreachable
from rolldeck.http import Backoff
from rolldeck.wire import Fragment, FragmentReceipt, encode, pack_array
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.spool import sender as sender_module
from rollouts.fleet.spool import spool_directory
from rollouts.fleet.spool.sender import Push, Sender
from rollouts.fleet.spool.spool_directory import (
    SEGMENT_BYTES,
    SPOOL_RETENTION_SECONDS,
    Spool,
    SpoolDirectory,
)

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
    api: Callable[[str], PlatformApi],
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
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
def test_a_temporary_refusal_is_retried(
    api: Callable[[str], PlatformApi], tmp_path: Path, eventually: Eventually, status: int
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


def test_one_invalid_fragment_is_counted_and_the_others_are_sent(
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
    assert [event.kind for event in events.pop()] == ["fragment_refused"]


def test_the_spool_of_a_dead_worker_is_sent_first(tmp_path: Path, eventually: Eventually) -> None:
    left = Spool(tmp_path / "r" / "another")
    for content in (b"1", b"2"):
        left.append(content)
    left.close()
    taken: list[bytes] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        taken.extend(fragments)
        return FragmentReceipt(accepted=1, duplicates=0, dropped={}, admission_remaining=9)

    inherit = SpoolDirectory(tmp_path, "r").next_orphaned_spool
    with sending(push, tmp_path, inherit=inherit) as (sender, events):
        sender.offer(b"3")
        eventually(lambda: taken == [b"1", b"2", b"3"] and sender.waiting == 0)
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


def test_a_truncated_fragment_is_counted_and_the_others_are_sent(
    tmp_path: Path, eventually: Eventually
) -> None:
    left = Spool(tmp_path / "r" / "another")
    for content in (b"1", b"22", b"333"):
        left.append(content)
    left.close()
    [path] = left.folder.iterdir()
    # Truncated as by a kill during the last write.
    os.truncate(path, path.stat().st_size - 1)
    taken: list[bytes] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        taken.extend(fragments)
        return FragmentReceipt(accepted=1, duplicates=0, dropped={}, admission_remaining=9)

    inherit = SpoolDirectory(tmp_path, "r").next_orphaned_spool
    with sending(push, tmp_path, inherit=inherit) as (sender, events):
        eventually(lambda: taken == [b"1", b"22"])
        eventually(lambda: sender.waiting == 0)

    assert sender.lost == 1
    assert "spool_damaged" in [event.kind for event in events.pop()]


def away(_: list[bytes]) -> FragmentReceipt:
    raise Unreachable(status=0, code="unreachable", detail="away")


def test_during_an_outage_every_fragment_is_on_the_disk_at_once(
    tmp_path: Path, eventually: Eventually
) -> None:
    with sending(away, tmp_path) as (sender, _):
        sender.offer(b"0")
        eventually(lambda: (tmp_path / "spool").exists())
        for number in range(1, 5):
            sender.offer(str(number).encode())
            assert left_in(tmp_path)[-1] == str(number).encode()
        assert sender.waiting == 5


def test_fragments_behind_a_hanging_request_are_written_to_disk(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "OUTAGE_AFTER_SECONDS", 0.2)
    gate = threading.Event()
    taken: list[bytes] = []

    def hangs(fragments: list[bytes]) -> FragmentReceipt:
        gate.wait(60.0)
        taken.extend(fragments)
        return FragmentReceipt(accepted=1, duplicates=0, dropped={}, admission_remaining=9)

    with sending(hangs, tmp_path, capacity=1) as (sender, _):
        sender.offer(b"0")
        assert not sender.has_room()
        eventually(sender.has_room)  # the request has lasted so long that it counts as an outage
        sender.offer(b"1")
        assert left_in(tmp_path) == [b"0", b"1"]
        gate.set()
        eventually(lambda: sender.waiting == 0)

    assert taken == [b"0", b"1"]


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


def test_the_age_of_a_spool_counts_from_its_last_fragment(
    tmp_path: Path,
) -> None:
    left = Spool(tmp_path / "r" / "w0")
    left.append(b"1")
    now = time.time()
    # The folder's time is that of its last new file.
    os.utime(left.folder, (now - SPOOL_RETENTION_SECONDS - 1,) * 2)
    left.append(b"2")
    left.close()

    assert SpoolDirectory(tmp_path, "mine").sweep(now) == 0
    assert left_in(tmp_path) == [b"1", b"2"]


def test_an_unwritable_disk_is_an_event_and_stops_new_fragments(
    tmp_path: Path, eventually: Eventually
) -> None:
    in_the_way = tmp_path / "disk"
    in_the_way.write_bytes(b"")
    taken: list[bytes] = []
    is_away = True

    def push(fragments: list[bytes]) -> FragmentReceipt:
        if is_away:
            away(fragments)
        taken.extend(fragments)
        return FragmentReceipt(accepted=1, duplicates=0, dropped={}, admission_remaining=9)

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

    assert taken == [b"1", b"2", b"3"]
    assert [event.kind for event in events.pop()] == ["spool_failed"]
