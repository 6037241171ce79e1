"""Requests to record episodes, and storage of the recordings."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from rolldeck.operator_requests import RecordingUpdate
from rollouts.control.models import Recording
from rollouts.control.schemas import RecordingRequest
from rollouts.fleet.process import logs
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.deletion import remove_files, size_of_files
from web.disk_space import DiskFull, check_disk
from web.live.announcements import announce
from web.rules.errors import InvalidField, NotFound, TooManyRequests

PENDING_AT_MOST: Final = 8
"""Maximum number of concurrent recordings of one run."""
RECORDING_TIMEOUT: Final = timedelta(minutes=15)
"""Maximum time from the request to the finished recording."""
FAILED_KEPT: Final = 20
PENDING: Final = ("requested", "recording")
_OVER: Final = (RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.FAILED)
_SUFFIX: Final = {"video/webm": "webm", "text/plain": "txt"}


class InvalidRecording(InvalidField):
    """A recording request is invalid; `field` names the field."""


class TooManyRecordings(TooManyRequests):
    """The limit on concurrent recordings is reached."""

    title = "Too many recordings are under way"
    retry_after_seconds = 30


class RecordingNotFound(NotFound):
    """The recording does not exist, or does not wait for this update."""


@transaction.atomic
def request_recordings(
    *, run_id: int, body: RecordingRequest, actor: str, now: datetime
) -> list[Recording]:
    """Request recordings of the next episodes of slots.

    Raises:
        InvalidRecording: If the run has no such worker, slot or environment, or has ended.
        TooManyRecordings: If too many are in progress.
        DiskFull: If free disk space is below the minimum.
    """
    check_disk()
    run = Run.objects.select_for_update(no_key=True).get(pk=run_id)
    spec = _check(run, body)
    in_transit = Recording.objects.filter(run_id=run_id, state__in=PENDING).count()
    if in_transit + body.episodes > PENDING_AT_MOST:
        raise TooManyRecordings(
            f"{in_transit} recordings are in progress (limit {PENDING_AT_MOST})"
        )
    rows = [
        Recording(
            run_id=run_id,
            requested_by=actor,
            requested_at=now,
            environment=spec,
            wanted_worker=body.worker,
            wanted_slot=body.slot,
        )
        for _ in range(body.episodes)
    ]
    Recording.objects.bulk_create(rows)
    record_event(
        run_id=run_id,
        kind="recording_requested",
        message="requested a recording of 1 episode"
        if body.episodes == 1
        else f"requested recordings of {body.episodes} episodes",
        actor=actor,
        reason=body.reason,
        now=now,
    )
    announce(run_id, "operator_requests", "recordings")
    return rows


def _check(run: Run, body: RecordingRequest) -> str:
    """Return the environment that will be recorded."""
    fleet = run.config.get("fleet", {})
    spec = str(run.config.get("environment", {}).get("spec", ""))
    if not fleet or run.status in _OVER:
        raise InvalidRecording("run", "the run has no fleet to record")
    if body.environment not in {"", spec}:
        raise InvalidRecording("environment", f"the run's fleet steps only {spec}")
    if body.worker is not None and body.worker >= fleet["num_workers"]:
        raise InvalidRecording(
            "worker", f"must be one of the fleet's workers, 0 to {fleet['num_workers'] - 1}"
        )
    if body.slot is not None and body.worker is None:
        raise InvalidRecording("worker", "required if `slot` is set")
    if body.slot is not None and body.slot >= fleet["envs_per_worker"]:
        last = fleet["envs_per_worker"] - 1
        raise InvalidRecording("slot", f"must be one of the worker's slots, 0 to {last}")
    return spec


def update_recording(
    *, run_id: int, recording_id: uuid.UUID, update: RecordingUpdate, now: datetime
) -> Recording:
    """Store a worker's update of a recording; the file is stored before any row refers to it.

    Raises:
        RecordingNotFound: If no recording of the run waits for it.
    """
    found = Recording.objects.filter(pk=recording_id, run_id=run_id, state__in=PENDING)
    if not found.exists():
        raise RecordingNotFound(f"recording {recording_id} is not in progress")
    state, reason = update.state, logs.clean(update.reason)
    if update.content:
        try:
            check_disk()
        except DiskFull as error:
            state, reason = "failed", f"the recording was not stored: {error}"
    if state == "ready" and (update.media is None or not update.content):
        state, reason = "failed", "the worker sent no recording"
    fields: dict[str, object] = {
        "state": state,
        "worker": update.worker,
        "slot": update.slot,
        "reason": reason,
        "started_at" if state == "recording" else "finished_at": now,
    }
    name, media = "", update.media
    if state == "ready" and media is not None:
        path = f"recordings/{run_id}/{recording_id}.{_SUFFIX[media.media_type]}"
        name = default_storage.save(path, ContentFile(update.content))
        fields |= {
            "file": name,
            "episode_return": update.total_return,
            "episode_length": update.length,
            "outcome": update.outcome,
            "policy_step": update.policy_step,
            "media_type": media.media_type,
            "frames": media.frames,
            "frames_left_out": media.left_out,
            "frames_per_second": media.frames_per_second,
            "width": media.width,
            "height": media.height,
            "note": logs.clean(media.note),
            "size_bytes": len(update.content),
        }
    with transaction.atomic():
        taken = found.update(**fields)
        if taken and name:
            _delete_old(run_id)
        announce(run_id, "recordings")
    if not taken:
        if name:
            default_storage.delete(name)
        raise RecordingNotFound(f"recording {recording_id} has ended")
    return Recording.objects.get(pk=recording_id)


def _delete_old(run_id: int) -> None:
    """Keep only the newest recordings and the newest failures of a run."""
    ready = Recording.objects.filter(run_id=run_id, state="ready").order_by("-finished_at", "-pk")
    for old in ready[settings.ROLLDECK_RECORDINGS_PER_RUN :]:
        transaction.on_commit(partial(default_storage.delete, str(old.file)))
        old.delete()
    failed = Recording.objects.filter(run_id=run_id, state="failed").order_by("-requested_at")
    kept = failed.values_list("pk", flat=True)[:FAILED_KEPT]
    failed.exclude(pk__in=list(kept)).delete()


def remove_recordings(run_id: int, recording_ids: Sequence[uuid.UUID]) -> int:
    """Remove the files of recordings of a deleted run; return their size in bytes."""
    return remove_files(Recording.objects.filter(run_id=run_id, pk__in=recording_ids))


def recorded_bytes(run_id: int) -> int:
    """Return the size of the recordings of a run."""
    return size_of_files(Recording.objects.filter(run_id=run_id))


def give_up_recordings(*, now: datetime) -> int:
    """Mark recordings as failed that can no longer finish; return their number."""
    in_transit = Recording.objects.filter(state__in=PENDING)
    late = in_transit.filter(requested_at__lt=now - RECORDING_TIMEOUT).update(
        state="failed",
        reason=f"no episode was recorded within {RECORDING_TIMEOUT.seconds // 60} min",
        finished_at=now,
    )
    over = in_transit.filter(run__status__in=_OVER).update(
        state="failed", reason="the run ended before the episode", finished_at=now
    )
    return late + over
