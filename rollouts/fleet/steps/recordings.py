"""Record episodes of slots, and upload the recordings to the platform."""

import contextlib
import logging
import os
import queue
import shutil
import stat
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from rolldeck.errors import InvalidRequest, NotFound, RolldeckError
from rolldeck.operator_requests import (
    MOST_RECORDED_BYTES,
    RecordedEpisode,
    RecordingCommand,
    RecordingUpdate,
)
from rollouts.fleet.process import environment_user
from rollouts.fleet.process.private_folder import MODE, private_folder
from rollouts.fleet.steps.env_messages import Recorded
from rollouts.fleet.steps.recorder import description_of

if TYPE_CHECKING:
    # A worker without a platform needs no HTTP client.
    from rollouts.fleet.spool.platform_api import PlatformApi

logger = logging.getLogger(__name__)

ENCODE_SECONDS: Final = 60.0
"""Time limit for the encoder after the end of an episode."""
TRIES: Final = 5
POLL_SECONDS: Final = 0.25
"""Interval at which an unassigned recording looks for a slot."""
MOST_COMMANDS: Final = 16
RETENTION_SECONDS: Final = 86_400.0
"""Retention of folders of killed workers."""


def delete_old(parent: Path) -> None:
    """Delete the folders in which no recording began for a day; links stay."""
    oldest = time.time() - RETENTION_SECONDS
    for folder in parent.glob("*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_mtime < oldest:
                shutil.rmtree(folder)  # raises for links


class RecordingWrapper(Protocol):
    """Interface that starts a recording in an env process."""

    def record(self, slot: int, request_id: str, video: str) -> bool:
        """Record the slot's next episode; return False if the slot cannot."""


@dataclass(slots=True)
class _ActiveRecording:
    command: RecordingCommand
    video: Path


class Recordings:
    """Recordings of one worker.

    The rollout loop calls `assign`, `finished` and `lost`, which never wait. A dedicated loop calls
    `turn`, which waits for encoders and the platform.
    """

    def __init__(self, *, worker: int, slots: int, api: "PlatformApi") -> None:
        """Start without recordings."""
        self._worker = worker
        self._slots = slots
        self._api = api
        self._user = environment_user.current()
        root = self._user.recordings_root() if self._user else private_folder("recordings")
        self._folder = root / uuid.uuid4().hex
        delete_old(root)
        self._commands: list[RecordingCommand] = []
        self._active: dict[int, _ActiveRecording] = {}
        self._next_slot = 0
        self._poll_at = 0.0
        self._updates: queue.Queue[tuple[str, RecordingUpdate, Path | None] | None] = queue.Queue()
        self._lock = threading.Lock()

    @property
    def has_commands(self) -> bool:
        """Whether any recording waits for a slot."""
        return bool(self._commands)

    def add(self, command: RecordingCommand) -> None:
        """Accept a recording request; known ones are ignored."""
        with self._lock:
            known = {one.id for one in self._commands} | {
                t.command.id for t in self._active.values()
            }
            if command.id not in known and len(known) < MOST_COMMANDS:
                self._commands.append(command)

    def assign(self, wrapper: RecordingWrapper, now: float) -> None:
        """Assign each request to a slot without a recording; the others keep waiting."""
        if now < self._poll_at:
            return
        self._poll_at = now + POLL_SECONDS
        with self._lock:
            commands = list(self._commands)
        for command in commands:
            slot = self._assign(command, wrapper)
            if slot is None:
                continue
            with self._lock:
                self._commands.remove(command)
            update = RecordingUpdate(state="recording", worker=self._worker, slot=slot)
            self._updates.put((command.id, update, None))

    def finished(self, slot: int, recorded: Recorded, policy_step: int) -> None:
        """Queue the upload of a slot's recording, which may still be encoding."""
        active = self._active.pop(slot, None)
        if active is None or active.command.id != recorded.request_id:
            return
        if recorded.error:
            self._fail(active.command, slot, recorded.error)
            return
        update = RecordingUpdate(
            state="ready",
            worker=self._worker,
            slot=slot,
            total_return=recorded.total_return,
            length=recorded.length,
            outcome=recorded.outcome,  # type: ignore[arg-type]
            policy_step=policy_step,
        )
        self._updates.put((active.command.id, update, active.video))

    def lost(self, slot: int) -> None:
        """Fail the recording of a slot that lost its environment."""
        active = self._active.pop(slot, None)
        if active is not None:
            self._fail(active.command, slot, "the environment was lost before its episode ended")

    def close(self) -> None:
        """End the wait of the current turn, and delete all recordings."""
        self._updates.put(None)
        for video in self._folder.glob("*"):
            video.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def turn(self) -> None:
        """Send one update to the platform, or wait up to a second for one."""
        try:
            next_update = self._updates.get(timeout=1.0)
        except queue.Empty:
            return
        if next_update is None:
            return
        recording_id, update, video = next_update
        if video is not None:
            update = self._with_video(update, video)
        self._send_update(recording_id, update)

    def _assign(self, command: RecordingCommand, wrapper: RecordingWrapper) -> int | None:
        """Start a recording; return its slot, or None if no slot is available."""
        if self._user is None:
            self._folder.mkdir(mode=MODE, parents=True, exist_ok=True)
        else:
            self._user.recordings_folder(self._folder.name)
        candidates = [command.slot] if command.slot is not None else self._rotated()
        video = self._folder / f"{command.id}.video"
        for slot in candidates:
            if slot in self._active or not wrapper.record(slot, command.id, str(video)):
                continue
            self._active[slot] = _ActiveRecording(command, video)
            self._next_slot = slot + 1
            return slot
        return None

    def _rotated(self) -> list[int]:
        return [(self._next_slot + offset) % self._slots for offset in range(self._slots)]

    def _fail(self, command: RecordingCommand, slot: int | None, reason: str) -> None:
        update = RecordingUpdate(
            state="failed", worker=self._worker, slot=slot, reason=reason[-4000:]
        )
        self._updates.put((command.id, update, None))

    def _with_video(self, update: RecordingUpdate, video: Path) -> RecordingUpdate:
        """Return the update with its recording, or a failure."""
        description = description_of(video)
        deadline = time.monotonic() + ENCODE_SECONDS
        while not description.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            media = msgspec.json.decode(self._read(description), type=RecordedEpisode)
            content = self._read(video) if video.exists() else b""
        except OSError as error:
            return self._failed(update, f"the recording was not finished: {error}")
        finally:
            video.unlink(missing_ok=True)
            description.unlink(missing_ok=True)
        if not content:
            return self._failed(update, media.note or "the recording is empty")
        if len(content) > MOST_RECORDED_BYTES:
            return self._failed(
                update,
                f"the recording has more than {MOST_RECORDED_BYTES} bytes",
            )
        return msgspec.structs.replace(update, media=media, content=content)

    def _read(self, path: Path) -> bytes:
        """Return a file that the env process wrote, up to a byte above the limit.

        Raises:
            OSError: If it is a link or another user's file, which this process may have the right
                to read and the environment has not.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            writer = os.getuid() if self._user is None else self._user.uid
            if not stat.S_ISREG(found.st_mode) or found.st_uid != writer:
                raise OSError(f"{path.name} is no file of user {writer}")
            return file.read(MOST_RECORDED_BYTES + 1)

    def _failed(self, update: RecordingUpdate, reason: str) -> RecordingUpdate:
        return RecordingUpdate(
            state="failed", worker=update.worker, slot=update.slot, reason=reason
        )

    def _send_update(self, recording_id: str, update: RecordingUpdate) -> None:
        for attempt in range(TRIES):
            try:
                self._api.update_recording(recording_id, update)
            except (InvalidRequest, NotFound) as refusal:
                logger.warning("recording %s refused: %s", recording_id, refusal)
                return
            except RolldeckError as failure:
                logger.info("recording %s not updated, try %d: %s", recording_id, attempt, failure)
                time.sleep(1.0)
            else:
                return
