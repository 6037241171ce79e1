"""Env processes and environments in the worker share arrays and announce rows in messages."""

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import odd_environments
import pytest
from worker_bench import bench

from rolldeck.fleet_wire import InfoDrops, InfoWindow
from rolldeck.wire import unpack_array
from rollouts.diagnosis.rules.problems import causes
from rollouts.fleet.environments import loader
from rollouts.fleet.environments.loader import register_vector
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.env_messages import (
    Began,
    Build,
    Channel,
    EnvBlock,
    EnvCrashed,
    FromProcess,
    InfoReport,
    Recorded,
    Setup,
    Step,
    Stepped,
    StepResult,
    ToProcess,
    anonymous_memory,
)
from rollouts.fleet.steps.env_rows import INFO_SECONDS, EnvRows
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker
from rollouts.fleet.steps.step_callbacks import EachStep
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from runs.config.rules.sections import EnvironmentConfig
from tests.waiting import eventually

AnyWorker = EnvWorker | EnvsInWorker
MakeSettings = Callable[..., WorkerSettings]
CALLBACK = "module:own_callbacks:Lines"


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel, socket.socket]]:
    """The parent's end, the process' end, and the raw socket of the process."""
    worker_end, process_end = socket.socketpair()
    yield (
        Channel(worker_end, receives=FromProcess),
        Channel(process_end, receives=ToProcess),
        process_end,
    )
    worker_end.close()
    process_end.close()


def test_messages_are_complete_and_in_order(ends: tuple[Channel, Channel, socket.socket]) -> None:
    parent, process, _ = ends
    parent.send(Step([0, 2]))
    parent.send(Build(1, 99))

    assert process.receive() == [Step([0, 2]), Build(1, 99)]


def test_a_message_larger_than_a_read_is_complete(
    ends: tuple[Channel, Channel, socket.socket],
) -> None:
    parent, process, _ = ends
    long = EnvCrashed(3, "x" * 1_000_000)
    sending = threading.Thread(target=process.send, args=(long,))
    sending.start()

    assert parent.receive() == [long]
    sending.join()


def test_half_a_message_waits_for_its_other_half(
    ends: tuple[Channel, Channel, socket.socket],
) -> None:
    parent, process, raw = ends
    process.send(StepResult([1], 0.5))
    whole = parent._socket.recv(100)
    raw.sendall(whole + whole[:-1])

    assert parent.receive() == [StepResult([1], 0.5)]
    raw.sendall(whole[-1:])
    assert parent.receive() == [StepResult([1], 0.5)]


def test_a_hang_up_ends_the_wait(ends: tuple[Channel, Channel, socket.socket]) -> None:
    parent, process, _ = ends
    process.close()

    with pytest.raises(EOFError):
        parent.receive()


@pytest.mark.parametrize(
    ("shape", "dtype"), [((), "int64"), ((4,), "float32"), ((8, 8, 3), "uint8"), ((0,), "float64")]
)
def test_both_sides_of_a_block_read_the_same_numbers(shape: tuple[int, ...], dtype: str) -> None:
    space = Space(kind="box", shape=shape, dtype=dtype)
    memory = anonymous_memory()
    one, other = (EnvBlock(memory, rows=3, observation=space, action=space) for _ in range(2))
    os.close(memory)
    columns = ("actions", "obs", "final_obs", "reward", "terminated", "truncated")
    for number, name in enumerate(columns):
        getattr(one, name)[...] = number % 2

    for number, name in enumerate(columns):
        column = getattr(other, name)
        assert column.shape[0] == 3
        assert (column == number % 2).all()


@pytest.fixture(params=[EnvWorker, EnvsInWorker])
def worker(request: pytest.FixtureRequest) -> Iterator[AnyWorker]:
    environment = EnvironmentConfig(spec="odd:counting", kwargs={"length": 3})
    made = request.param(environment, slots=range(10, 14), base_seed=1)
    made.start()
    yield made
    made.kill()


def receive(worker: AnyWorker, kind: type[Any], count: int = 1) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        messages += [message for message in worker.receive() if isinstance(message, kind)]
    return messages


def test_a_process_steps_the_requested_rows(worker: AnyWorker) -> None:
    receive(worker, Began, 4)
    first = [worker.observation(row).tolist() for row in range(4)]
    worker.step(np.array([13, 11]), np.array([0, 1]))
    [stepped] = receive(worker, Stepped)

    assert stepped.rows.tolist() == [3, 1]
    assert stepped.obs[:, 0].tolist() == [1, 1]
    assert stepped.obs[:, 1].tolist() == [first[3][1], first[1][1]]
    assert stepped.reward.tolist() == [1, 1]
    assert worker.observation(0).tolist() == first[0]


def test_concurrent_steps_of_different_rows_do_not_mix(worker: AnyWorker) -> None:
    receive(worker, Began, 4)
    worker.step(np.array([10, 11]), np.array([0, 1]))
    worker.step(np.array([12, 13]), np.array([0, 1]))

    assert [stepped.rows.tolist() for stepped in receive(worker, Stepped, 2)] == [[0, 1], [2, 3]]


def test_an_ended_episode_has_its_last_and_its_next_observation(worker: AnyWorker) -> None:
    receive(worker, Began, 4)
    for _ in range(3):
        worker.step(np.array([10]), np.array([0]))
        [stepped] = receive(worker, Stepped)
    worker.step(np.array([10]), np.array([0]))
    [after] = receive(worker, Stepped)

    assert stepped.terminated.tolist() == [True]
    assert [(at, obs[0]) for at, obs in stepped.finals] == [(0, 3)]
    assert (stepped.obs[0, 0], after.obs[0, 0]) == (0, 1)
    assert after.finals == []


def open_files() -> set[str]:
    """Return the files, pipes and sockets that this process has open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since, by a thread of an earlier test
            found.add(str(descriptor.readlink()))
    return found


def test_a_killed_process_is_reported_as_killed_and_leaves_nothing_open() -> None:
    before = open_files()
    worker = EnvWorker(EnvironmentConfig(spec="odd:counting"), slots=range(2), base_seed=1)
    worker.start()
    receive(worker, Began, 2)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(EnvWorkerDied, match="signal 9"):
        worker.receive()
    worker.kill()

    assert worker.descriptor is None
    assert open_files() <= before
    with pytest.raises(EnvWorkerDied):
        worker.step(np.array([0]), np.array([0]))


def test_a_restarted_process_has_its_own_block(worker: AnyWorker) -> None:
    receive(worker, Began, 4)
    worker.step(np.array([10]), np.array([0]))
    worker.close()
    worker.start()
    receive(worker, Began, 4)

    assert [worker.observation(row)[0] for row in range(4)] == [0] * 4


@pytest.mark.parametrize("kind", [EnvWorker, EnvsInWorker])
def test_numbers_of_info_are_reported_by_last_and_other_steps(kind: Any) -> None:
    measuring = EnvironmentConfig(spec="odd:measuring", kwargs={"length": 2})
    worker = kind(measuring, slots=range(2), base_seed=1)
    worker.start()
    try:
        receive(worker, Began, 2)
        worker.step(np.array([0, 1]), np.array([0, 0]))
        [first] = receive(worker, InfoReport)
        worker.step(np.array([0]), np.array([0]))
        receive(worker, Stepped)
        time.sleep(INFO_SECONDS)
        worker.step(np.array([1]), np.array([0]))
        [second] = receive(worker, InfoReport)
    finally:
        worker.kill()

    def found(report: InfoReport) -> set[tuple[str, str, int, float]]:
        return {(one.name, one.scope, one.count, one.total) for one in report.window.sums}

    assert found(first) == {("speed", "step", 2, 2.0), ("won", "step", 2, 2.0)}
    assert found(second) == {("speed", "episode", 2, 4.0), ("won", "episode", 2, 2.0)}
    assert [(one.problem, one.count, one.example) for one in first.window.dropped] == [
        ("out_of_range", 2, "bad")
    ]


class Columns:
    """Two rows whose episodes last two steps, with columns of `info`."""

    def __init__(self, rows: int) -> None:
        self.observation_space = Space(kind="box", shape=(1,), dtype="float32")
        self.action_space = Space(kind="discrete", shape=(), dtype="int64", choices=2)
        self._steps = np.zeros(rows)

    def reset(self, row: int, *, seed: int | None = None) -> Any:  # noqa: ARG002
        self._steps[row] = 0
        return np.zeros(1, dtype=np.float32)

    def step(self, rows: Any, _: Any) -> Any:
        self._steps[rows] += 1
        steps = self._steps[rows].copy()
        ended = steps >= 2
        info = {"steps": steps, "score": 10 * steps, "_score": ended}
        obs = np.zeros((len(rows), 1), dtype=np.float32)
        return obs, np.ones(len(rows)), ended, np.zeros(len(rows), dtype=np.bool_), info

    def close(self) -> None:
        pass


def test_columns_of_a_vector_environment_are_reported_where_they_have_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_vector("columns:both", lambda _, rows: Columns(rows))
    monkeypatch.setattr("rollouts.fleet.steps.env_rows.INFO_SECONDS", 0.0)
    worker = EnvsInWorker(EnvironmentConfig(spec="columns:both"), slots=range(2), base_seed=1)
    worker.start()
    try:
        receive(worker, Began, 2)
        worker.step(np.array([0]), np.array([0]))
        receive(worker, InfoReport)
        worker.step(np.array([0, 1]), np.array([0, 0]))
        [report] = receive(worker, InfoReport)
    finally:
        worker.kill()

    assert {(one.name, one.scope, one.count, one.total) for one in report.window.sums} == {
        ("steps", "episode", 1, 2.0),
        ("score", "episode", 1, 20.0),
        ("steps", "step", 1, 1.0),
    }


NAME = "caf\udce9"
DROPS = InfoDrops(problem="invalid_name", count=1, example=NAME)


@pytest.mark.parametrize(
    "message",
    [
        EnvCrashed(1, f"RuntimeError: {NAME}"),
        Recorded(1, "id", error=NAME),
        InfoReport(InfoWindow(dropped=[DROPS])),
        StepResult([0], 0.5, [EnvCrashed(0, NAME)]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_text_that_is_not_utf_8_is_sent_with_a_replacement(message: Any) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours, receives=ToProcess).send(message)
        [received] = Channel(theirs, receives=FromProcess).receive()

    assert repr(received) == repr(message).replace("\\udce9", "\ufffd")


@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}], ids=["vector", "rows"])
def test_fragments_of_envs_in_the_worker_are_contiguous(
    make_worker_settings: MakeSettings, kwargs: dict[str, bool]
) -> None:
    settings = make_worker_settings(envs_in_worker=True, kwargs=kwargs)
    with bench(settings) as b:
        eventually(lambda: len(b.fragments) > 40)
        assert set(b.pids()) == {os.getpid()}
        stages = b.order().report.stages

    assert {"recv", "env_step", "infer"} <= stages.keys()
    by_slot = {f.slot: [g for g in b.fragments if g.slot == f.slot] for f in b.fragments}
    assert len(by_slot) == 4
    for mine in by_slot.values():
        for before, after in pairwise(mine):
            assert after.contiguous
            boundary = unpack_array(before.arrays["next_obs"])
            assert np.array_equal(boundary, unpack_array(after.arrays["obs"])[0])


def test_an_environment_that_raises_is_rebuilt_and_the_others_continue(
    make_worker_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(odd_environments, "_made", 0)
    settings = make_worker_settings(spec="one_odd:x", envs_in_worker=True)
    with bench(settings) as b:
        eventually(lambda: b.slots()[:1] == ["failed"], 60.0)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 10)

    assert b.events.count("slot_restarted") == 5
    assert b.events.count("slot_failed") == 1
    assert b.aborted == 6
    lost = [(event.message, 1) for event in b.reported if event.kind.startswith("slot_")]
    assert causes(lost, environment="e") == ["e: RuntimeError: broken at step 3 (6 times)"]


def test_an_unknown_kind_is_refused_as_by_a_process(make_worker_settings: MakeSettings) -> None:
    with bench(make_worker_settings(spec="unheard:of", envs_in_worker=True)) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        assert "UnknownEnvironment" in b.order().report.slots[0].error


def test_all_environments_are_rebuilt_between_episodes_after_the_restart_interval(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(
        spec="odd:counting",
        environment={"restart_interval_seconds": 0.5},
        envs_in_worker=True,
    )
    with bench(settings) as b:
        eventually(lambda: all(slot.restarts for slot in b.order().report.slots))
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 8)

    assert b.aborted == 0
    assert "slot_restarted" not in b.events


def test_an_environment_that_hangs_fails_its_worker(
    make_worker_settings: MakeSettings, tmp_path: Path
) -> None:
    settings = make_worker_settings(
        spec="one_hangs:x",
        kwargs={"marker": str(tmp_path / "hung")},
        environment={"hung_after_seconds": 1.0},
        envs_in_worker=True,
    )
    with bench(settings) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)

        assert (
            b.order().report.reason
            == "an environment in the worker's process did not return for 1 s "
            "(environment.hung_after_seconds)"
        )


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
    closing = EnvironmentConfig(spec="odd:closing", kwargs=kwargs)
    rows, messages = make_rows(Setup(closing, [0]))

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
    rows, _ = make_rows(Setup(EnvironmentConfig(spec="odd:vector"), [0, 0]))
    rows.build(0, 1)
    rows.build(1, 2)

    rows.close()
    rows.close()

    assert closed == ["vector"]
