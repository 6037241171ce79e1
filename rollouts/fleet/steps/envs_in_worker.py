"""Environments in the worker's own process, for those that cost less than a process switch.

Compared with separate env processes, an environment that hangs blocks the whole worker, one that
crashes in native code ends the worker, and its output goes to the worker's log. An environment
that raises is rebuilt in both cases.
"""

import os
import traceback
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.environments.loader import import_registered_modules
from rollouts.fleet.process.logs import OutputPump
from rollouts.fleet.steps.env_messages import (
    AnyMessage,
    Build,
    EnvBlock,
    FromProcess,
    Record,
    Setup,
    StepResult,
    anonymous_memory,
)
from rollouts.fleet.steps.env_rows import EnvRows
from rollouts.fleet.steps.env_worker import HEADLESS, EnvWorkerDied, SlotSeeds, read_steps
from rollouts.fleet.steps.slots import Slots
from runs.config.rules.sections import EnvironmentConfig


class EnvsInWorker:
    """Environments of all slots, with the interface of `EnvWorker`.

    `step` only queues the work and `receive` does it, so the caller's wait in between ends at once.
    """

    def __init__(
        self,
        environment: EnvironmentConfig,
        *,
        slots: range,
        base_seed: int,
        output: OutputPump | None = None,  # noqa: ARG002 output goes to the worker's log
        mark: str = "",  # noqa: ARG002 processes they start carry the worker's mark
    ) -> None:
        """Prepare the environments; the arguments are those of `EnvWorker`."""
        self.slots = slots
        self._setup = Setup(environment, [0] * len(slots))
        self._seeds = SlotSeeds(base_seed)
        self._rows: EnvRows | None = None
        self._requests: deque[Slots | Build | Record] = deque()
        """Rows to step, and other pending work."""
        self._messages: list[FromProcess] = []
        self._bell: tuple[int, int] | None = None
        self._memory: int | None = None

    @property
    def descriptor(self) -> int | None:
        return self._bell[0] if self._bell else None

    @property
    def pid(self) -> int | None:
        return os.getpid() if self._bell else None

    def start(self) -> None:
        """Schedule all environments to be rebuilt by the next `receive`."""
        self.kill()
        for name, value in HEADLESS.items():
            os.environ.setdefault(name, value)
        self._bell = os.pipe()
        for slot in self.slots:
            self.build(slot)

    def write_line(self, text: str) -> None:
        """Do nothing: the worker's log and events cover it."""

    def build(self, slot: int) -> None:
        self._send(Build(slot - self.slots.start, self._seeds.next(slot)))

    def record(self, slot: int, request_id: str, video: str) -> None:
        self._send(Record(slot - self.slots.start, request_id, video))

    def step(self, slots: Slots, actions: NDArray[Any]) -> None:
        rows = slots - self.slots.start
        self._block().actions[rows] = actions
        self._send(rows)

    def receive(self) -> list[AnyMessage]:
        """Do the pending work and return its results.

        Raises:
            EnvWorkerDied: If there are no environments, or none can be built.
        """
        if self._bell is None:
            raise EnvWorkerDied("not started")
        os.read(self._bell[0], 4096)
        try:
            while self._requests:
                request = self._requests.popleft()
                if self._rows is None:
                    import_registered_modules()
                    self._memory = anonymous_memory()
                    self._rows = EnvRows(
                        self._setup, emit=self._messages.append, memory=self._memory
                    )
                match request:
                    case Build(row, seed):
                        self._rows.build(row, seed)
                    case Record(row, request_id, video):
                        self._rows.record(row, request_id, video)
                    case asked:
                        self._rows.step(asked)
        except Exception as error:
            traceback.print_exc()
            raise EnvWorkerDied(f"{type(error).__name__}: {error}") from error
        messages = [
            read_steps(message, self._block()) if isinstance(message, StepResult) else message
            for message in self._messages
        ]
        self._messages.clear()
        return messages

    def observation(self, row: int) -> NDArray[Any]:
        return np.array(self._block().obs[row])

    def kill(self) -> None:
        rows, self._rows = self._rows, None
        bell, self._bell = self._bell, None
        self._requests.clear()
        self._messages.clear()
        memory, self._memory = self._memory, None
        for descriptor in (*(bell or ()), *(() if memory is None else (memory,))):
            os.close(descriptor)
        if rows is not None:
            with suppress(Exception):  # errors no longer matter
                rows.close()

    def close(self) -> None:
        self.kill()

    def _send(self, message: Slots | Build | Record) -> None:
        if self._bell is None:
            raise EnvWorkerDied("not started")
        self._requests.append(message)
        os.write(self._bell[1], b"!")

    def _block(self) -> EnvBlock:
        if self._rows is None or self._rows.block is None:
            raise EnvWorkerDied("not started")
        return self._rows.block
