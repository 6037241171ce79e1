"""Record an episode inside an env process, without delaying its steps.

The camera takes a frame after each step, and a thread encodes the frames. Frames that it cannot
encode in time are dropped and counted. The description of a recording is written after the file,
and signals that the recording is complete.
"""

import logging
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from rolldeck.operator_requests import MOST_RECORDED_BYTES, RecordedEpisode
from rollouts.fleet.policies.spaces import picture
from rollouts.fleet.process import log_text
from rollouts.fleet.process.storable import cleaned, to_json

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


class Camera(Protocol):
    """Interface that takes the frames of one episode."""

    def add(self, frame: Any) -> None:
        """Store or drop a frame; never waits."""

    def finish(self) -> None:
        """End the recording; the file is completed in the background."""


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
        """End the recording after the waiting frames."""
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
                if self._fits(shot):
                    shown = np.ascontiguousarray(shot[:height, :width])
                    frame = self._av.VideoFrame.from_ndarray(shown, format="rgb24")
                    container.mux(stream.encode(frame))
                    self._encoded += 1
                else:
                    self._left_out += 1
                shot = self._waiting.get()
            container.mux(stream.encode(None))

    def _fits(self, shot: NDArray[np.uint8]) -> bool:
        """Return whether the image has the recording's size and the file has room for it."""
        width, height = self._size
        is_same = shot.shape[0] // 2 * 2 == height and shot.shape[1] // 2 * 2 == width
        # The encoder buffers a few frames; one eighth of the limit is reserved for them.
        # The file exists only after the encoder's first output.
        size = self._path.stat().st_size if self._path.exists() else 0
        return is_same and size < MOST_RECORDED_BYTES * 7 // 8


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
        """Store a frame while there is room."""
        text = cleaned("\n".join(log_text.clean_lines(str(frame).split("\n"))))
        self._bytes += len(text.encode()) + 1
        if len(self._frames) >= MOST_FRAMES or self._bytes > MOST_TEXT_BYTES:
            self._left_out += 1
            return
        self._frames.append(text)

    def finish(self) -> None:
        """Write the file."""
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
        """Build the environment with the best supported render mode.

        Args:
            make: Builds environments from a spec and arguments.
            spec: Spec of the environment.
            kwargs: Arguments other than the render mode.
            path: File to write, in an existing folder.
        """
        self._path = path
        self._camera: Camera
        self._draws = True
        self.total_return = 0.0
        self.length = 0
        self.seed: int | None = None
        self.outcome = ""
        self._environment, self._mode, why = _drawable(make, spec, kwargs)
        self.observation_space = self._environment.observation_space
        self.action_space = self._environment.action_space
        metadata = getattr(self._environment, "metadata", None) or {}
        fps = float(metadata.get("render_fps") or FRAMES_PER_SECOND)
        self._fps = min(max(fps, 1.0), 120.0)
        self._why = why

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the episode and the recording."""
        obs, extras = self._environment.reset(seed=self.seed if seed is None else seed)
        self._camera = self._open(self._draw())
        self._record_frame(f"reset · observation {_short(obs)}")
        return obs, extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and render it."""
        obs, reward, terminated, truncated, extras = self._environment.step(action)
        self.total_return += float(reward)
        self.length += 1
        if terminated or truncated:
            self.outcome = "terminated" if terminated else "truncated"
        caption = f"step {self.length} · action {_short(action)} · reward {float(reward):.6g}"
        self._record_frame(f"{caption} · observation {_short(obs)}")
        return obs, reward, terminated, truncated, extras

    def close(self) -> None:
        """Close the environment; an unfinished recording is discarded."""
        self._environment.close()

    def finish(self) -> None:
        """End the recording after the last step of the episode."""
        self._camera.finish()

    def _open(self, first: Any) -> Camera:
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


def _drawable(make: Any, spec: str, kwargs: Mapping[str, Any]) -> tuple[Any, str, str]:
    """Return an environment, its render mode, and why no better mode is available."""
    why = ""
    for mode in ("rgb_array", "ansi"):
        try:
            return make(spec, {**kwargs, "render_mode": mode}), mode, ""
        except Exception as error:  # noqa: BLE001 environments raise any type
            why = why or f"no images: {error}"[:900]
    return make(spec, kwargs), "", why


def _short(value: Any) -> str:
    with np.printoptions(precision=4, threshold=16, edgeitems=4, suppress=True):
        return " ".join(str(value).split())[:200]
