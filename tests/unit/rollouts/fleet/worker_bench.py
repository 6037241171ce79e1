"""Test bench that acts as a worker's manager and platform."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from rolldeck.wire import FleetEvent, Fragment, FragmentReceipt
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState


class Bench:
    """A worker, with the test as its manager and platform."""

    def __init__(self, settings: WorkerSettings, **options: Any) -> None:
        self.fragments: list[Fragment] = []
        self.events: list[str] = []
        self.reported: list[FleetEvent] = []
        self.aborted = 0
        self.worker = RolloutWorkerWrapper(settings, push=self._push, **options)

    def _push(self, fragments: list[bytes]) -> FragmentReceipt:
        self.fragments += [msgspec.msgpack.decode(raw, type=Fragment) for raw in fragments]
        return FragmentReceipt(
            accepted=len(fragments), duplicates=0, dropped={}, admission_remaining=1000
        )

    def publish(self, step: int, *, epoch: int = 1) -> None:
        state = MlpPolicy(4, 2, [8]).state_dict()
        self.publish_tensors(step, {n: value.numpy() for n, value in state.items()}, epoch=epoch)

    def publish_tensors(self, step: int, tensors: dict[str, Any], *, epoch: int = 1) -> None:
        self.worker.update_weights(WeightsRecord(epoch=epoch, step=step, tensors=tensors))

    def order(self, desired: str = "running", **changes: Any) -> WorkerState:
        command = {"epoch": 1, "policy_step": 0, "is_reporting": True, **changes}
        state = self.worker.heartbeat(WorkerCommand(desired=desired, **command))  # type: ignore[arg-type]
        self.reported += state.events
        self.events += [event.kind for event in state.events]
        self.aborted += sum(window.aborted for window in state.episodes)
        return state

    def steps(self) -> int:
        return self.order().report.env_steps

    def slots(self, **changes: Any) -> list[str]:
        return [slot.state for slot in self.order(**changes).report.slots]

    def pids(self) -> list[int]:
        return [slot.pid or 0 for slot in self.order().report.slots]


@contextmanager
def bench(settings: WorkerSettings, *, room: int = 100_000, **options: Any) -> Iterator[Bench]:
    made = Bench(settings, **options)
    try:
        made.publish(0)
        made.order(credits=room)
        yield made
        made.order()
    finally:
        made.worker.stop()
