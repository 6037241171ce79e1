"""Recordings of episodes: requests, progress and files."""

import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from django.core.files.storage import default_storage

from rolldeck.operator_requests import RECORDING_TYPE, RecordedEpisode, RecordingUpdate
from rollouts.control.models import Recording
from rollouts.control.queries import recordings as queries_recordings
from rollouts.control.queries.fleets import control_of
from rollouts.control.queries.recordings import recording, recordings
from rollouts.control.schemas import RecordingRequest
from rollouts.control.services import recordings as recording_services
from rollouts.control.services.recordings import (
    InvalidRecording,
    RecordingNotFound,
    TooManyRecordings,
    give_up_recordings,
    request_recordings,
    update_recording,
)
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet, publish
from tests.integration.rollouts.report_factories import NOON, change_status, draft, later, launched
from tests.live_server import serving
from tests.waiting import within

MEDIA = RecordedEpisode(
    media_type="video/webm", frames=11, frames_per_second=30.0, width=60, height=40
)


@pytest.fixture
def run(db: None) -> Run:
    return launched(FakeCluster())


def request(run: Run, *, seconds: float = 0, **fields: Any) -> list[Recording]:
    return request_recordings(
        run_id=run.pk, body=RecordingRequest(**fields), actor="user:alice", now=later(seconds)
    )


def update(row: Recording, state: str = "ready", *, seconds: float = 1, **fields: Any) -> Recording:
    given: dict[str, Any] = {"worker": 0, "slot": 2, **fields}
    if state == "ready":
        given = {"media": MEDIA, "content": b"film", "total_return": 9.0, "length": 9, **given}
    return update_recording(
        run_id=row.run_id,
        recording_id=row.pk,
        update=RecordingUpdate(state=state, **given),  # type: ignore[arg-type]
        now=later(seconds),
    )


def test_a_request_is_sent_with_commands_until_it_is_fulfilled(run: Run) -> None:
    before = control_of(run.pk)
    [row] = request(run, worker=0, slot=3, reason="it falls to the left")
    assert RunEvent.objects.get(kind="recording_requested").reason == "it falls to the left"

    control = control_of(run.pk)
    [order] = control.recordings
    assert (order.id, order.worker, order.slot) == (str(row.pk), 0, 3)
    assert control.fingerprint != before.fingerprint
    update(row, "recording")
    assert control_of(run.pk).recordings == [order]
    update(row)
    assert control_of(run.pk).fingerprint == before.fingerprint


def test_a_finished_recording_describes_its_episode(run: Run) -> None:
    [row] = request(run)
    update(row, "recording", seconds=1)
    update(row, seconds=5, outcome="truncated", policy_step=3)

    [shown] = recordings(run.pk, after=None, limit=9)
    assert (shown.state, shown.worker, shown.slot) == ("ready", 0, 2)
    assert (shown.episode_return, shown.episode_length, shown.outcome) == (9.0, 9, "truncated")
    assert (shown.policy_step, shown.media_type, shown.size_bytes) == (3, "video/webm", 4)
    assert (shown.started_at, shown.finished_at) == (later(1), later(5))
    with queries_recordings.open_recording(recording(run.pk, row.pk)) as recorded:
        assert recorded.read() == b"film"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"worker": 9}, "worker"),
        ({"slot": 0}, "worker"),
        ({"worker": 0, "slot": 99}, "slot"),
        ({"environment": "gymnasium:Other-v0"}, "environment"),
    ],
)
def test_unknown_slots_are_not_recorded(run: Run, wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecording) as refused:
        request(run, **wrong)

    assert refused.value.field == field
    assert not Recording.objects.exists()


def test_a_run_without_a_live_fleet_records_nothing(run: Run) -> None:
    outside = draft("outside", kind="outside")
    change_status(run, RunVerb.KILL)

    for each_run in (outside, run):
        with pytest.raises(InvalidRecording):
            request(each_run)


def test_a_recording_that_the_disk_has_no_room_for_fails(run: Run, settings: Any) -> None:
    [row] = request(run)
    settings.ROLLDECK_MIN_FREE_DISK_BYTES = 1 << 60

    done = update(row)

    assert (done.state, done.file, done.size_bytes) == ("failed", "", 0)
    assert done.reason.startswith("the recording was not stored: ")
    assert f"at least {1 << 60} required" in done.reason


def test_the_number_of_open_requests_is_limited(run: Run) -> None:
    request(run, episodes=4)
    first = request(run, episodes=4)[0]

    with pytest.raises(TooManyRecordings):
        request(run)
    update(first, "failed", reason="no")
    assert len(request(run)) == 1


def test_a_recording_is_finished_once(run: Run) -> None:
    [row] = request(run)
    update(row)

    with pytest.raises(RecordingNotFound):
        update(row, content=b"another")
    with pytest.raises(RecordingNotFound):
        update(row, "failed", reason="too late")
    with queries_recordings.open_recording(Recording.objects.get()) as recorded:
        assert recorded.read() == b"film"


def test_a_ready_recording_without_a_file_has_failed(run: Run) -> None:
    [row] = request(run)

    assert update(row, content=b"").state == "failed"


def test_the_newest_recordings_are_kept_and_older_ones_deleted(
    run: Run, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.ROLLDECK_RECORDINGS_PER_RUN = 2
    with django_capture_on_commit_callbacks(execute=True):
        rows = [request(run, seconds=n)[0] for n in range(4)]
        names = [update(row, seconds=10 + n).file for n, row in enumerate(rows)]

    stored = Recording.objects.order_by("finished_at")
    assert [row.pk for row in stored] == [rows[2].pk, rows[3].pk]
    assert [default_storage.exists(name) for name in names] == [False, False, True, True]


def test_unanswered_requests_expire(run: Run) -> None:
    request(run)
    late = NOON + recording_services.RECORDING_TIMEOUT + timedelta(seconds=1)
    [fresh] = request(run, seconds=60)

    assert give_up_recordings(now=late) == 1
    assert "15 min" in Recording.objects.get(state="failed").reason
    change_status(run, RunVerb.KILL, now=late)
    give_up_recordings(now=late)
    fresh.refresh_from_db()
    assert (fresh.state, fresh.reason) == ("failed", "the run ended before the episode")


@pytest.fixture
def platform(transactional_db: None) -> Iterator[Platform]:
    with serving() as url, Platform(url) as platform:
        yield platform


def put(platform: Platform, row: Recording, body: bytes) -> httpx.Response:
    return httpx.put(
        f"{platform.url}/api/v1/runs/pole/recordings/{row.pk}",
        content=body,
        headers={**bearer("worker", run=row.run), "Content-Type": RECORDING_TYPE},
        timeout=60,
    )


def test_malformed_recordings_are_not_stored(platform: Platform) -> None:
    [row] = request(launched(FakeCluster()))
    wrong = RecordingUpdate(state="ready", worker=0, media=MEDIA, content=b"x")
    bodies = {
        b"": "nothing",
        b"\xc1": "no msgpack",
        msgspec.msgpack.encode({"state": "odd", "worker": 0}): "an unknown state",
        msgspec.msgpack.encode({"state": "ready", "worker": -1}): "a negative worker",
        msgspec.msgpack.encode(msgspec.structs.replace(wrong, content=b"x" * 9_000_000)): "large",
    }
    for body, what in bodies.items():
        assert put(platform, row, body).status_code == 400, what

    row.refresh_from_db()
    assert row.state == "requested"
    row.pk = uuid.UUID(int=9)
    assert put(platform, row, msgspec.msgpack.encode(wrong)).status_code == 404


def test_a_local_fleet_records_the_next_episode_of_a_slot(
    platform: Platform, tmp_path: Path
) -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    publish(run)
    headers = bearer("admin")
    path = f"{platform.url}/api/v1/runs/pole/recordings"

    def newest() -> dict[str, Any]:
        recording: dict[str, Any] = httpx.get(path, headers=headers, timeout=60).json()["results"][
            0
        ]
        return recording

    with local_fleet(platform, cluster.orders[-1], tmp_path):
        began = time.monotonic()
        response = httpx.post(path, json={"worker": 0, "slot": 3}, headers=headers, timeout=60)
        assert response.status_code == 201, response.text
        assert within(120, lambda: newest()["state"] in {"ready", "failed"}), newest()
        took = time.monotonic() - began

    shown = newest()
    assert (shown["state"], shown["worker"], shown["slot"]) == ("ready", 0, 3), shown
    assert shown["media_type"] == "video/webm"
    assert shown["frames"] + shown["frames_left_out"] == shown["episode_length"] + 1
    assert shown["episode_return"] == shown["episode_length"]
    assert shown["policy_step"] == 0
    assert took < 120
    recorded = httpx.get(f"{path}/{shown['id']}/content", headers=headers, timeout=60)
    part = httpx.get(
        f"{path}/{shown['id']}/content", headers={**headers, "Range": "bytes=0-3"}, timeout=60
    )
    assert recorded.headers["content-type"] == "video/webm"
    assert recorded.headers["x-content-type-options"] == "nosniff"
    assert recorded.content[:4] == b"\x1a\x45\xdf\xa3", "WebM begins as EBML does"
    assert (part.status_code, part.content) == (206, recorded.content[:4])
    assert len(recorded.content) == shown["size_bytes"]
