"""A language worker without credits reports the resource that it waits for."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rollouts.fleet.groups.task_loop import Credits, TaskLoop
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.worker.messages import WorkerCommand, obstacle_without_credits


@pytest.mark.parametrize(
    ("newest", "wait", "reason"),
    [
        (4, "waiting_room", "waiting for room in the buffer"),
        (5, "waiting_weights", "waiting for version 5 of the weights"),
    ],
)
def test_worker_with_an_old_version_waits_for_weights(newest: int, wait: str, reason: str) -> None:
    monitor = PipelineMonitor(now=time.monotonic())
    context: Any = SimpleNamespace(
        config=SimpleNamespace(language=None),
        active=lambda: (1, 4),
        supply=SimpleNamespace(next=lambda *_, **__: None),
        credits=Credits(),
        has_room=lambda: True,
        monitor=monitor,
        wake=threading.Condition(),
    )
    worker: Any = SimpleNamespace()
    loop = TaskLoop(context, index=0)
    loop.command = WorkerCommand(desired="running", epoch=1, policy_step=newest)

    loop.turn(worker)

    assert list(monitor.shares(time.monotonic())) == [wait]
    assert obstacle_without_credits((1, 4), loop.command) == reason
