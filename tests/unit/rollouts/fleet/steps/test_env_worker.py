"""A worker and its env process share arrays, and announce new rows in messages."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolldeck.fleet_wire import InfoDrops, InfoWindow
from rollouts.fleet.environments.loader import register_vector
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.steps.env_messages import (
    Began,
    Build,
    Channel,
    EnvBlock,
    EnvCrashed,
    FromProcess,
    InfoReport,
    Recorded,
    Step,
    Stepped,
    StepResult,
    ToProcess,
    anonymous_memory,
)
from rollouts.fleet.steps.env_rows import INFO_SECONDS
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker

AnyWorker = EnvWorker | EnvsInWorker


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
    made = request.param(
        spec="odd:counting", kwargs={"length": 3}, slots=range(10, 14), base_seed=1
    )
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
    worker = EnvWorker(spec="odd:counting", kwargs={}, slots=range(2), base_seed=1)
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
    worker = kind(spec="odd:measuring", kwargs={"length": 2}, slots=range(2), base_seed=1)
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
    worker = EnvsInWorker(spec="columns:both", kwargs={}, slots=range(2), base_seed=1)
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
