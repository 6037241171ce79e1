"""Record episodes inside env processes, and upload the recordings to the platform.

Recording does not delay steps. The camera takes a frame after each step, and a thread encodes the
frames. Frames that it cannot encode in time are dropped and counted. The description of a recording
is written after the file, and signals that the recording is complete.
"""

import contextlib
import logging
import os
import queue
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck.errors import InvalidRequestError, NotFoundError, RolldeckError
from rolldeck.operator_requests import (
    MOST_RECORDED_BYTES,
    RecordedEpisode,
    RecordingCommand,
    RecordingUpdate,
)
from rollouts.fleet.policies.spaces import picture
from rollouts.fleet.process import child_environment, logs
from rollouts.fleet.process.private_folder import MODE, private_folder
from rollouts.fleet.process.storable import cleaned, to_json
from rollouts.fleet.steps.env_messages import Recorded

if TYPE_CHECKING:
    # A worker without a platform needs no HTTP client.
    from rollouts.fleet.platform_api import PlatformApi


logger = logging.getLogger(__name__)

MOST_FRAMES: Final = 3000
MOST_SIDE: Final = 640
"""Maximum side length in pixels; larger images are subsampled by a whole number."""
QUEUE_BYTES: Final = 64 * 1024 * 1024
"""Maximum total size of frames that wait for the encoder."""
FRAMES_PER_SECOND: Final = 30.0
"""Default if the environment does not specify it."""
MOST_TEXT_BYTES: Final = 1024 * 1024
FRAME_BREAK: Final = "\f"
# Constant quality with the fastest encoder settings: about 2 ms per frame of 600 x 400.
_VP9: Final = {"deadline": "realtime", "cpu-used": "8", "crf": "36", "b:v": "0"}
ENCODE_SECONDS: Final = 60.0
"""Time limit for the encoder after the end of an episode."""
TRIES: Final = 5
POLL_SECONDS: Final = 0.25
"""Interval at which an unassigned recording looks for a slot."""
MOST_COMMANDS: Final = 16
RETENTION_SECONDS: Final = 86_400.0
"""Retention of folders of killed workers."""


def description_of(path: Path) -> Path:
    """Return the path of a recording's description, which exists once it is complete."""
    return path.with_suffix(".json")


class VideoRecorder:
    """Encodes images ``[height, width, 3]`` uint8 as VP9 in WebM, which all browsers support."""

    def __init__(self, path: Path, *, frames_per_second: float) -> None:
        """Open the encoder.

        Raises:
            ImportError: If PyAV is not installed.
        """
        import av

        self._av = av
        self._path = path
        self._fps = frames_per_second
        self._waiting: queue.Queue[NDArray[np.uint8] | None] = queue.Queue()
        self._waiting_bytes = 0
        self._taken = 0
        self._left_out = 0
        self._encoded = 0
        self._size = (0, 0)
        threading.Thread(target=self._run, name="camera", daemon=True).start()

    def add(self, frame: Any) -> None:
        """Store an image unless too many are waiting."""
        too_many = self._taken >= MOST_FRAMES or self._waiting_bytes > QUEUE_BYTES
        if too_many:
            self._left_out += 1
            return
        stride = -(-max(frame.shape[:2]) // MOST_SIDE)
        # Copied, because environments reuse their render buffer.
        copied = np.array(frame[::stride, ::stride, :3], dtype=np.uint8, order="C")
        self._taken += 1
        self._waiting_bytes += copied.nbytes
        self._waiting.put(copied)

    def finish(self) -> None:
        """End the recording; the file is completed in the background."""
        self._waiting.put(None)

    def _run(self) -> None:
        try:
            self._encode()
            note = ""
        except Exception as error:
            logger.exception("recording not encoded")
            self._path.unlink(missing_ok=True)
            note = f"encoding the recording failed: {error}"[:1000]
        _describe(
            self._path,
            RecordedEpisode(
                media_type="video/webm",
                frames=self._encoded,
                left_out=self._left_out,
                frames_per_second=self._fps,
                width=self._size[0],
                height=self._size[1],
                note=note,
            ),
        )

    def _encode(self) -> None:
        first = self._waiting.get()
        if first is None:
            raise ValueError("the environment rendered no image")
        # Chroma is subsampled, so both sides must be even.
        height, width = (side - side % 2 for side in first.shape[:2])
        self._size = (width, height)
        with self._av.open(str(self._path), "w", format="webm") as container:
            stream = container.add_stream("libvpx-vp9", rate=round(self._fps), options=_VP9)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            shot: NDArray[np.uint8] | None = first
            while shot is not None:
                self._waiting_bytes -= shot.nbytes
                is_same = (shot.shape[0] // 2 * 2, shot.shape[1] // 2 * 2) == (height, width)
                # The file exists only after the encoder's first output. The encoder buffers a few
                # frames; one eighth of the limit is reserved for them.
                size = self._path.stat().st_size if self._path.exists() else 0
                if is_same and size < MOST_RECORDED_BYTES * 7 // 8:
                    shown = np.ascontiguousarray(shot[:height, :width])
                    frame = self._av.VideoFrame.from_ndarray(shown, format="rgb24")
                    container.mux(stream.encode(frame))
                    self._encoded += 1
                else:
                    self._left_out += 1
                shot = self._waiting.get()
            container.mux(stream.encode(None))


class TextRecorder:
    """Records text frames: the environment's own rendering, or a description of each step."""

    def __init__(self, path: Path, *, frames_per_second: float, note: str = "") -> None:
        self._path = path
        self._fps = frames_per_second
        self._note = note
        self._frames: list[str] = []
        self._bytes = 0
        self._left_out = 0

    def add(self, frame: Any) -> None:
        text = cleaned("\n".join(logs.clean_lines(str(frame).split("\n"))))
        self._bytes += len(text.encode()) + 1
        if len(self._frames) >= MOST_FRAMES or self._bytes > MOST_TEXT_BYTES:
            self._left_out += 1
            return
        self._frames.append(text)

    def finish(self) -> None:
        self._path.write_text(FRAME_BREAK.join(self._frames))
        filmed = RecordedEpisode(
            media_type="text/plain",
            frames=len(self._frames),
            left_out=self._left_out,
            frames_per_second=self._fps,
            note=self._note,
        )
        _describe(self._path, filmed)


def _describe(path: Path, filmed: RecordedEpisode) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(to_json(filmed))
    unfinished.rename(description_of(path))


class RecordedEnvironment:
    """Environment rendered after each step; replaces a slot's environment for one episode."""

    def __init__(self, make: Any, spec: str, kwargs: Mapping[str, Any], path: Path) -> None:
        """Build the environment with the best supported render mode, to record it in a file."""
        self._path = path
        self._camera: VideoRecorder | TextRecorder
        self._draws = True
        self.total_return = 0.0
        self.length = 0
        self.seed: int | None = None
        self.outcome = ""
        self._mode = self._why = why = ""
        for mode in ("rgb_array", "ansi"):
            try:
                self._environment = make(spec, {**kwargs, "render_mode": mode})
            except Exception as error:  # noqa: BLE001 environments raise any type
                why = why or f"no images: {error}"[:900]
            else:
                self._mode = mode
                break
        else:
            self._environment, self._why = make(spec, kwargs), why
        self.observation_space = self._environment.observation_space
        self.action_space = self._environment.action_space
        metadata = getattr(self._environment, "metadata", None) or {}
        fps = float(metadata.get("render_fps") or FRAMES_PER_SECOND)
        self._fps = min(max(fps, 1.0), 120.0)

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        obs, extras = self._environment.reset(seed=self.seed if seed is None else seed)
        self._camera = self._open(self._draw())
        self._record_frame(f"reset · observation {_short(obs)}")
        return obs, extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, extras = self._environment.step(action)
        self.total_return += float(reward)
        self.length += 1
        if terminated or truncated:
            self.outcome = "terminated" if terminated else "truncated"
        caption = f"step {self.length} · action {_short(action)} · reward {float(reward):.6g}"
        self._record_frame(f"{caption} · observation {_short(obs)}")
        return obs, reward, terminated, truncated, extras

    def close(self) -> None:
        self._environment.close()

    def finish(self) -> None:
        self._camera.finish()

    def _open(self, first: Any) -> VideoRecorder | TextRecorder:
        """Return the camera for the output of the environment's render()."""
        if self._mode == "rgb_array" and first is not None:
            try:
                return VideoRecorder(self._path, frames_per_second=self._fps)
            except ImportError:
                self._why = "PyAV is not installed on the fleet's nodes"
        elif self._mode == "ansi" and isinstance(first, str):
            return TextRecorder(self._path, frames_per_second=self._fps)
        self._draws = False
        why = self._why or "the environment renders neither images nor text"
        return TextRecorder(self._path, frames_per_second=self._fps, note=why)

    def _draw(self) -> Any:
        if self._mode == "":
            return None
        try:
            frame = self._environment.render()
        except Exception as error:  # noqa: BLE001 rendering must never end an episode
            self._draws, self._why = False, f"rendering failed: {error}"[:900]
            return None
        return picture(frame) if self._mode == "rgb_array" else frame

    def _record_frame(self, caption: str) -> None:
        if not self._draws:
            self._camera.add(caption)
            return
        frame = self._draw()
        if frame is not None:
            self._camera.add(frame)


def _short(value: Any) -> str:
    with np.printoptions(precision=4, threshold=16, edgeitems=4, suppress=True):
        return " ".join(str(value).split())[:200]


def delete_old(parent: Path) -> None:
    """Delete the folders in which no recording began for a day; links stay."""
    oldest = time.time() - RETENTION_SECONDS
    for folder in parent.glob("*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_mtime < oldest:
                shutil.rmtree(folder)  # raises for links


class Recordings:
    """Recordings of one worker.

    The rollout loop calls `assign`, `finished` and `lost`, which never wait. A dedicated loop calls
    `turn`, which waits for encoders and the platform.
    """

    def __init__(self, *, worker: int, slots: int, api: "PlatformApi") -> None:
        self._worker = worker
        self._slots = slots
        self._api = api
        self._user = child_environment.environment_user()
        root = self._user.recordings_root() if self._user else private_folder("recordings")
        self._folder = root / uuid.uuid4().hex
        delete_old(root)
        self._commands: list[RecordingCommand] = []
        self._active: dict[int, tuple[RecordingCommand, Path]] = {}
        """Recording and its file, by slot."""
        self._next_slot = 0
        self._poll_at = 0.0
        self._updates: queue.Queue[tuple[str, RecordingUpdate, Path | None] | None] = queue.Queue()
        self._lock = threading.Lock()

    @property
    def has_commands(self) -> bool:
        return bool(self._commands)

    def add(self, command: RecordingCommand) -> None:
        """Accept a recording request; known ones are ignored."""
        with self._lock:
            begun = [recorded for recorded, _ in self._active.values()]
            known = {one.id for one in (*self._commands, *begun)}
            if command.id not in known and len(known) < MOST_COMMANDS:
                self._commands.append(command)

    def assign(self, record: Callable[[int, str, str], bool], now: float) -> None:
        """Assign each request to a slot without a recording; the others keep waiting.

        `record` begins a recording with a slot's next episode; False if the slot cannot.
        """
        if now < self._poll_at:
            return
        self._poll_at = now + POLL_SECONDS
        with self._lock:
            commands = list(self._commands)
        for command in commands:
            if self._user is None:
                self._folder.mkdir(mode=MODE, parents=True, exist_ok=True)
            else:
                self._user.recordings_folder(self._folder.name)
            slots = [(self._next_slot + offset) % self._slots for offset in range(self._slots)]
            if command.slot is not None:
                slots = [command.slot]
            video = self._folder / f"{command.id}.video"
            for slot in slots:
                if slot in self._active:
                    continue
                if not record(slot, command.id, str(video)):
                    continue
                self._active[slot] = (command, video)
                self._next_slot = slot + 1
                with self._lock:
                    self._commands.remove(command)
                update = RecordingUpdate(state="recording", worker=self._worker, slot=slot)
                self._updates.put((command.id, update, None))
                break

    def finished(self, slot: int, recorded: Recorded, policy_step: int) -> None:
        """Queue the upload of a slot's recording, which may still be encoding."""
        command, video = self._active.pop(slot, (None, None))
        if command is None or command.id != recorded.request_id:
            return
        if recorded.error:
            self._fail(command, slot, recorded.error)
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
        self._updates.put((command.id, update, video))

    def lost(self, slot: int) -> None:
        """Fail the recording of a slot that lost its environment."""
        command, _ = self._active.pop(slot, (None, None))
        if command is not None:
            self._fail(command, slot, "the environment was lost before its episode ended")

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
        for attempt in range(TRIES):
            try:
                self._api.update_recording(recording_id, update)
            except (InvalidRequestError, NotFoundError) as refusal:
                logger.warning("recording %s refused: %s", recording_id, refusal)
                return
            except RolldeckError as failure:
                logger.info("recording %s not updated, try %d: %s", recording_id, attempt, failure)
                time.sleep(1.0)
            else:
                return

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
            return self._failed(update, f"the recording has more than {MOST_RECORDED_BYTES} bytes")
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
