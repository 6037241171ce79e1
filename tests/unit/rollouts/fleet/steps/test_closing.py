"""A worker closes each environment, vector and step callback exactly once."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.fleet.environments import loader
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.env_messages import EnvCrashed, Setup, anonymous_memory
from rollouts.fleet.steps.env_rows import EnvRows
from rollouts.fleet.steps.step_callbacks import EachStep
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader

MakeSettings = Callable[..., WorkerSettings]
CALLBACK = "module:own_callbacks:Lines"


def calls(folder: Path) -> Counter[str]:
    """Return how often each environment was closed, by its number."""
    files = (folder / "closed").read_text().splitlines() if (folder / "closed").exists() else []
    return Counter(files)


@pytest.mark.parametrize("envs_in_worker", [True, False], ids=["in_worker", "in_processes"])
def test_closing_a_worker_twice_closes_everything_once(
    make_worker_settings: MakeSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    envs_in_worker: bool,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    monkeypatch.setenv("ROLLDECK_STEP_CALLBACKS", CALLBACK)
    lines = tmp_path / "lines"
    settings = make_worker_settings(
        spec="odd:closing",
        kwargs={"folder": str(tmp_path)},
        envs_in_worker=envs_in_worker,
        environment={"step_callbacks": [{"kind": CALLBACK, "kwargs": {"file": str(lines)}}]},
    )
    worker = StepRolloutWorker(
        settings,
        weights=WeightsLoader(EventLog(), announce_ready=lambda: None),
        progress_handler=EachStep(lambda **_: None, slots=["a", "b", "c", "d"]),
        monitor=PipelineMonitor(now=time.monotonic()),
        events=EventLog(),
    )
    deadline = time.monotonic() + 60
    while [slot.state for slot in worker.reports()] != ["waiting"] * 4:
        assert time.monotonic() < deadline, worker.reports()
        worker.turn()

    worker.close()
    worker.close()

    assert sorted(calls(tmp_path).values()) == [1, 1, 1, 1]
    assert lines.read_text() == "closed\n"


def make_rows(setup: Setup) -> tuple[EnvRows, list[Any]]:
    loader.import_registered_modules()
    messages: list[Any] = []
    return EnvRows(setup, emit=messages.append, memory=anonymous_memory()), messages


@pytest.mark.parametrize("raises_at", [0, 1], ids=["reset", "step"])
def test_an_environment_that_raises_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises_at: int
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    kwargs = {"folder": str(tmp_path), "raises_at": raises_at, "fails_in_reset": not raises_at}
    rows, messages = make_rows(Setup("odd:closing", kwargs, [0]))

    rows.build(0, 1)
    if raises_at:
        rows.step(np.array([0]))

    assert isinstance(messages[-1], EnvCrashed)
    assert list(calls(tmp_path).values()) == [1]
    rows.close()
    assert list(calls(tmp_path).values()) == [1]


def test_the_vector_is_closed_with_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Vector:
        observation_space = loader.Space(kind="box", shape=(4,), dtype="float32")
        action_space = loader.Space(kind="discrete", shape=(), dtype="int64", choices=2)

        def reset(self, row: int, *, seed: int | None = None) -> Any:
            return [row, seed or 0, 0, 0]

        def close(self) -> None:
            closed.append("vector")

    monkeypatch.setattr(loader, "_vector_factories", {"odd:vector": lambda *_: Vector()})
    rows, _ = make_rows(Setup("odd:vector", {}, [0, 0]))
    rows.build(0, 1)
    rows.build(1, 2)

    rows.close()
    rows.close()

    assert closed == ["vector"]
