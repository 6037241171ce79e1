"""An episode is recorded in the best supported render mode, within limits."""

import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import pytest

from rolldeck.operator_requests import RecordedEpisode
from rollouts.fleet.steps import recordings
from rollouts.fleet.steps.env_messages import Began, EnvCrashed, Ready, Recorded, Stepped
from rollouts.fleet.steps.env_worker import EnvWorker
from rollouts.fleet.steps.recordings import FRAME_BREAK, TextRecorder, VideoRecorder, description_of
from runs.config.rules.sections import EnvironmentConfig


def described(video: Path) -> RecordedEpisode:
    """Wait for the description of a recording and return it."""
    deadline = time.monotonic() + 60
    while not description_of(video).exists():
        assert time.monotonic() < deadline, "the video was never finished"
        time.sleep(0.02)
    return msgspec.json.decode(description_of(video).read_bytes(), type=RecordedEpisode)


class Slot:
    """A real env process with one slot, stepped manually."""

    def __init__(self, kwargs: dict[str, Any], *, spec: str = "odd:drawing") -> None:
        environment = EnvironmentConfig(spec=spec, kwargs=kwargs)
        self.worker = EnvWorker(environment, slots=range(1), base_seed=1)
        self.unread: list[Any] = []
        self.worker.start()
        assert isinstance(self.next(), Ready)
        assert isinstance(self.next(), Began)

    def next(self) -> Any:
        if not self.unread:
            assert self.worker.descriptor is not None
            assert wait([self.worker.descriptor], 60), "the env process says nothing"
            self.unread += self.worker.receive()
        return self.unread.pop(0)

    def step(self, count: int = 1) -> list[Any]:
        """Step; return the messages, including those about recordings."""
        messages: list[Any] = []
        for _ in range(count):
            self.worker.step(np.array([0]), np.zeros(1, dtype=np.int64))
            messages.append(self.next())
            while not isinstance(messages[-1], Stepped):
                messages.append(self.next())
        return messages


@pytest.fixture
def slots() -> Iterator[Any]:
    made: list[Slot] = []

    def make(**kwargs: Any) -> Slot:
        made.append(Slot({"length": 10, **kwargs}))
        return made[-1]

    yield make
    for slot in made:
        slot.worker.close()


def filmed_episode(slot: Slot, video: Path) -> Recorded:
    """Request a recording in mid-episode; return the result of the next episode."""
    slot.step(3)
    slot.worker.record(0, "order", str(video))
    before = slot.step(7 + 9)
    assert not [message for message in before if isinstance(message, Recorded)]
    [recorded] = [message for message in slot.step() if isinstance(message, Recorded)]
    assert not [message for message in slot.step(25) if isinstance(message, Recorded)]
    return recorded


def test_the_next_episode_becomes_a_video(slots: Any, tmp_path: Path) -> None:
    video = tmp_path / "a.video"

    recorded = filmed_episode(slots(), video)

    assert (recorded.request_id, recorded.error) == ("order", "")
    assert (recorded.total_return, recorded.length) == (10.0, 10)
    assert recorded.outcome == "terminated"
    description = described(video)
    assert (description.media_type, description.frames, description.left_out) == (
        "video/webm",
        11,
        0,
    )
    assert (description.width, description.height, description.frames_per_second) == (80, 50, 20.0)
    with av.open(str(video)) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(pictures) == 11
    assert pictures[0][25, 20].min() > 200, "at first all is white"
    assert pictures[10][25, 20][0] > pictures[10][25, 20][1] + 60, "at the end it is red"


def test_a_text_environment_is_recorded_as_text(slots: Any, tmp_path: Path) -> None:
    video = tmp_path / "a.video"

    filmed_episode(slots(modes="ansi"), video)

    description = described(video)
    frames = video.read_text().split(FRAME_BREAK)
    assert (description.media_type, description.frames, description.note) == ("text/plain", 11, "")
    assert frames[0] == "at step 0"
    assert frames[-1] == "at step 10"


def test_an_environment_that_cannot_be_drawn_is_described_step_by_step(
    slots: Any, tmp_path: Path
) -> None:
    video = tmp_path / "a.video"

    filmed_episode(slots(modes=""), video)

    description = described(video)
    frames = video.read_text().split(FRAME_BREAK)
    assert description.media_type == "text/plain"
    assert "no render mode rgb_array" in description.note
    assert frames[1].startswith("step 1 · action 0 · reward 1 · observation [")


def test_the_recording_of_cartpole_is_its_rendering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    slot, video = Slot({}, spec="gymnasium:CartPole-v1"), tmp_path / "a.video"
    try:
        slot.worker.record(0, "order", str(video))
        messages: list[Any] = []
        while not any(isinstance(message, Recorded) for message in messages):
            messages += slot.step()
        description = described(video)
    finally:
        slot.worker.close()

    assert (description.media_type, description.width, description.height) == (
        "video/webm",
        600,
        400,
    )
    assert description.frames_per_second == 50.0
    [length] = [message.length for message in messages if isinstance(message, Recorded)]
    assert description.frames + description.left_out == length + 1


def test_an_environment_that_breaks_while_filmed_is_replaced_as_any(
    slots: Any, tmp_path: Path
) -> None:
    slot = slots(raises_at=12, length=20)
    slot.worker.record(0, "order", str(tmp_path / "a.video"))
    message: Any = None
    while not isinstance(message, EnvCrashed):
        slot.worker.step(np.array([0]), np.zeros(1, dtype=np.int64))
        message = slot.next()
    slot.worker.build(0)

    assert isinstance(slot.next(), Began)
    assert isinstance(slot.step()[0], Stepped)


def test_the_length_of_a_video_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MOST_FRAMES", 30)
    camera = VideoRecorder(tmp_path / "a.video", frames_per_second=30.0)
    for _ in range(100):
        camera.add(np.zeros((64, 64, 3), np.uint8))
    camera.finish()

    description = described(tmp_path / "a.video")
    assert (description.frames, description.left_out) == (30, 70)


def test_a_large_image_is_scaled_and_one_of_another_size_omitted(tmp_path: Path) -> None:
    camera = VideoRecorder(tmp_path / "a.video", frames_per_second=30.0)
    camera.add(np.zeros((1081, 1921, 4), np.uint8))
    camera.add(np.zeros((64, 64, 3), np.uint8))
    camera.finish()

    description = described(tmp_path / "a.video")
    assert (description.width, description.height) == (480, 270)
    assert (description.frames, description.left_out) == (1, 1)


def test_a_recording_without_an_image_has_a_reason(tmp_path: Path) -> None:
    VideoRecorder(tmp_path / "a.video", frames_per_second=30.0).finish()

    assert "rendered no image" in described(tmp_path / "a.video").note
    assert not (tmp_path / "a.video").exists()


def test_a_text_recording_is_limited_and_has_no_escape_sequences(tmp_path: Path) -> None:
    camera = TextRecorder(tmp_path / "a.video", frames_per_second=1.0)
    for _ in range(recordings.MOST_FRAMES + 5):
        camera.add("\x1b[2J" + "x" * 400)
    camera.finish()

    description = described(tmp_path / "a.video")
    assert description.frames + description.left_out == recordings.MOST_FRAMES + 5
    assert (tmp_path / "a.video").stat().st_size <= recordings.MOST_TEXT_BYTES
    assert "\x1b" not in (tmp_path / "a.video").read_text()
