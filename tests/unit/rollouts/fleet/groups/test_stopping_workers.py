"""A language worker ends within two seconds, in any state.

The time limits are wide, for busy machines; a regular end of the blocked operations would exceed
all of them. Measured: 0.1 s, or 1.6 s if something hangs forever.
"""

import importlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.building import build
from rollouts.fleet.groups.wrapper import GroupWorkerWrapper
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.weights.records import Rank, Version, WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState
from runs.config.rules.language_config import LanguageConfig
from tests.unit.rollouts.fleet.groups.language_platform import (
    LanguagePlatform,
    language_run,
    settings_of,
)
from tests.unit.rollouts.fleet.small_platform import served
from tests.waiting import eventually

BOUND_SECONDS = 10.0
REVERSE = {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}
RUNNING = WorkerCommand(desired="running", epoch=1, policy_step=0, credits=1000, is_reporting=True)


class HangingPlatform(LanguagePlatform):
    """Platform that accepts requests of one kind and never answers them."""

    def __init__(self, language: LanguageConfig, *, hangs_at: str = "nowhere") -> None:
        super().__init__(language)
        self._hangs_at = hangs_at
        self.is_reached, self.released = threading.Event(), threading.Event()
        self.takes_groups = True

    def answer_to(self, path: str, body: bytes, key: str) -> bytes:
        if path.endswith("/groups") and not self.takes_groups:
            return b""
        if path.endswith(self._hangs_at):
            self.is_reached.set()
            self.released.wait(120)
        return super().answer_to(path, body, key)


class HangingOffer:
    """Weights on a disk that does not respond."""

    version: Version = (1, 1)
    rank: Rank = (0, 1, 1)

    def __init__(self) -> None:
        self.is_reached, self.released = threading.Event(), threading.Event()

    def receive(self, version: Version) -> WeightsRecord | None:
        del version
        self.is_reached.set()
        self.released.wait(120)
        return None


class Server:
    """A platform and one worker of its run."""

    def __init__(self, platform: HangingPlatform, worker: GroupWorkerWrapper) -> None:
        self.platform, self.worker = platform, worker

    def run(self) -> WorkerState:
        return self.worker.heartbeat(RUNNING)

    def publish(self) -> None:
        model = build(self.platform.language).model
        tensors = {name: part.numpy() for name, part in checkpoints.named_tensors(model)}
        self.worker.update_weights(WeightsRecord(epoch=1, step=0, tensors=tensors))

    def stop(self) -> float:
        began = time.monotonic()
        self.worker.stop()
        return time.monotonic() - began


@pytest.fixture
def working(tmp_path: Path) -> Callable[..., Any]:
    @contextmanager
    def begin(
        lesson: dict[str, Any], *, hangs_at: str = "nowhere", **model: Any
    ) -> Iterator[Server]:
        config = language_run({"one": lesson}, model=model)
        assert config.language is not None
        platform = HangingPlatform(config.language, hangs_at=hangs_at)
        with served(platform) as url:
            fleet = settings_of(config, tmp_path, url=url)
            settings = WorkerSettings(fleet=fleet, index=0, incarnation="1-aaaa-bb")
            server = Server(platform, GroupWorkerWrapper(settings))
            try:
                yield server
            finally:
                platform.released.set()
                server.worker.stop()

    return begin


@pytest.mark.parametrize("place", ["/lessons/tasks", "/groups", "/outcomes"])
def test_a_worker_stops_while_the_platform_does_not_answer(
    working: Callable[..., Any], place: str
) -> None:
    with working(REVERSE, hangs_at=place) as server:
        server.publish()
        server.run()
        assert server.platform.is_reached.wait(60)

        assert server.stop() < BOUND_SECONDS


def test_a_worker_stops_between_two_push_attempts(working: Callable[..., Any]) -> None:
    with working(REVERSE) as server:
        server.platform.takes_groups = False
        server.publish()
        eventually(lambda: server.run().report.to_send > 0, 60.0)

        assert server.stop() < BOUND_SECONDS
        assert server.worker.stop().report.to_send > 0, "unsent groups wait in the spool"


def test_a_worker_stops_during_long_answers(working: Callable[..., Any]) -> None:
    endless = {"spec": "module:odd_token_environments:Endless", "sampling": {"max_tokens": 20_000}}
    with working(endless, tokenizer="bytes", max_position_embeddings=4096) as server:
        server.publish()
        eventually(
            lambda: any(slot.state == "stepping" for slot in server.run().report.slots), 60.0
        )

        assert server.stop() < BOUND_SECONDS


def test_a_worker_stops_while_an_environment_hangs(working: Callable[..., Any]) -> None:
    environment = importlib.import_module("odd_token_environments")
    environment.STUCK.clear()
    environment.RELEASED.clear()
    stuck = {"spec": "module:odd_token_environments:Stuck"}
    with working(stuck, tokenizer="bytes") as server:
        server.publish()
        server.run()
        assert environment.STUCK.wait(60)

        took = server.stop()
        environment.RELEASED.set()

    assert took < BOUND_SECONDS


def test_a_worker_stops_while_it_waits_for_weights(working: Callable[..., Any]) -> None:
    offer = HangingOffer()
    with working(REVERSE) as server:
        server.publish()
        server.run()
        server.worker.update_weights(offer)
        assert offer.is_reached.wait(60)

        took = server.stop()
        offer.released.set()

    assert took < BOUND_SECONDS


def test_a_worker_stops_while_its_model_is_read(
    working: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoints" / "slow"
    folder.mkdir(parents=True)
    # Opening the FIFO for reading blocks until a writer opens it.
    os.mkfifo(folder / "config.json")
    monkeypatch.setenv("ROLLDECK_CHECKPOINTS", str(folder.parent))
    with working(REVERSE, checkpoint="slow") as server:
        # It cannot be opened for writing without a reader.
        writing: list[int] = []

        def is_read() -> bool:
            with suppress(OSError):
                writing.append(os.open(folder / "config.json", os.O_WRONLY | os.O_NONBLOCK))
            return bool(writing)

        eventually(is_read, 60.0)
        took = server.stop()
        os.close(writing[0])

    assert took < BOUND_SECONDS
