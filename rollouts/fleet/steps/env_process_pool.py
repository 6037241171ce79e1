"""Pool of a worker's env processes and their slots.

An environment that raises is rebuilt inside its process. A process that dies, hangs or reaches its
restart interval is replaced. Waits grow with each crash. A slot or process that crashes too often
is given up: its slots become `failed` and all others continue.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import ReportedSlotState, SlotReport
from rollouts.fleet.process import child_environment
from rollouts.fleet.process.logs import OutputPump
from rollouts.fleet.process.loops import EventLog, RestartBudget, RestartRule
from rollouts.fleet.steps.env_messages import (
    AnyMessage,
    Began,
    EnvCrashed,
    InfoReport,
    OutsideBounds,
    Ready,
    Recorded,
    Stepped,
)
from rollouts.fleet.steps.env_worker import EnvWorker, EnvWorkerDied
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker
from rollouts.fleet.steps.slots import PoolListener, Slots
from runs.config.rules.run_config import RunConfig

ENV_RULE: Final = RestartRule(
    most_crashes=6, window_seconds=60.0, first_seconds=0.1, most_seconds=10.0
)

INVALID_VALUE_SECONDS: Final = 60.0
"""Minimum interval between two events of a slot whose environment works between invalid values."""

SlotState = Literal["starting", "running", "restarting", "failed", "stopped"]


@dataclass(slots=True)
class _Slot:
    process: "_Process"
    budget: RestartBudget
    state: SlotState = "starting"
    episodes: int = 0
    restarts: int = 0
    error: str = ""
    silent_until: float = 0.0
    """When the next invalid value is reported."""
    unreported: int = 0
    """Invalid values since the last report."""


@dataclass(slots=True)
class _Process:
    worker: EnvWorker | EnvsInWorker
    slots: Slots
    """Numbers of its slots, ``[R]``."""
    budget: RestartBudget
    start_at: float | None = 0.0
    """When to start it; None while it runs or is given up."""
    started_at: float = 0.0
    heard_at: float = 0.0
    """Time of the last message, or of the first unanswered request if that is later."""
    awaited: set[int] = field(default_factory=set)
    """Slots whose answer is outstanding."""
    held: set[int] = field(default_factory=set)
    """Slots paused between two episodes until the process is replaced."""


class EnvProcessPool:
    """All env processes of one worker; the caller runs its turns and supplies the time."""

    def __init__(
        self,
        config: RunConfig,
        *,
        base_seed: int,
        events: EventLog,
        listener: PoolListener,
        output: OutputPump | None = None,
        mark: str = "",
        rule: RestartRule = ENV_RULE,
    ) -> None:
        """Prepare the processes; the first `maintain` starts them."""
        self._restart_interval = config.environment.restart_interval_seconds
        self._hung_after_seconds = config.environment.hung_after_seconds
        self._events = events
        self._listener = listener
        self._slots: list[_Slot] = []
        self._processes: list[_Process] = []
        self._is_outside_bounds = self._has_worked = False
        self._build_at: dict[int, float] = {}
        """When to rebuild the environments of slots that raised."""
        count, size = config.fleet.envs_per_worker, config.fleet.envs_per_process
        self._has_stepped = np.zeros(count, dtype=np.bool_)
        """Whether the present environment of each slot has made a step, ``[S]``."""
        kind: type[EnvWorker | EnvsInWorker] = EnvWorker
        if config.fleet.envs_in_worker:
            size = count
            # The worker holds a token of its run, which another user may not read.
            kind = EnvsInWorker if child_environment.environment_user() is None else EnvWorker
        for first in range(0, count, size):
            worker = kind(
                config.environment,
                slots=range(first, min(first + size, count)),
                base_seed=base_seed,
                output=output,
                mark=mark,
            )
            process = _Process(worker, np.asarray(worker.slots), RestartBudget(rule))
            self._processes.append(process)
            self._slots += [_Slot(process, RestartBudget(rule)) for _ in worker.slots]

    @property
    def descriptors(self) -> list[int]:
        found = (process.worker.descriptor for process in self._processes)
        return [descriptor for descriptor in found if descriptor is not None]

    @property
    def is_broken(self) -> bool:
        return all(slot.state == "failed" for slot in self._slots)

    @property
    def refusal(self) -> str:
        """Error of an environment that was given up in every slot before its first step."""
        return self._slots[0].error if self.is_broken and not self._has_worked else ""

    @property
    def restarts(self) -> int:
        """Number of rebuilt environments, over all slots."""
        return sum(slot.restarts for slot in self._slots)

    def reports(self) -> list[SlotReport]:
        reports = []
        for number, slot in enumerate(self._slots):
            awaits = number in slot.process.awaited
            running: ReportedSlotState = "stepping" if awaits else "waiting"
            report = SlotReport(
                slot=number,
                state=running if slot.state == "running" else slot.state,
                pid=slot.process.worker.pid,
                episodes=slot.episodes,
                restarts=slot.restarts,
                error=slot.error[-2000:],
            )
            reports.append(report)
        return reports

    def step(self, slots: Slots, actions: NDArray[Any], now: float) -> None:
        for process in self._processes:
            chosen, rows = slots, actions
            if len(self._processes) > 1:
                first, behind = process.worker.slots.start, process.worker.slots.stop
                is_mine = (slots >= first) & (slots < behind)
                chosen, rows = slots[is_mine], actions[is_mine]
            if not len(chosen):
                continue
            try:
                process.worker.step(chosen, rows)
            except EnvWorkerDied as death:
                self._remove(process, str(death), now)
                continue
            self._expect(process, chosen.tolist(), now)

    def refuse(self, slot: int, text: str, now: float) -> None:
        """End the episode of a waiting slot, whose next action is invalid."""
        self._mend(slot, EnvCrashed(slot, text, is_invalid_value=True), now)

    def record(self, slot: int, request_id: str, video: str) -> bool:
        """Record the slot's next episode; return False if the slot has no environment."""
        if not 0 <= slot < len(self._slots):
            return False
        if self._slots[slot].state != "running":
            return False
        try:
            self._slots[slot].process.worker.record(slot, request_id, video)
        except EnvWorkerDied:
            return False  # `read` handles the dead process
        return True

    def read(self, descriptors: Container[int], now: float) -> None:
        """Read the messages on `descriptors` and notify the listener."""
        for process in self._processes:
            if process.worker.descriptor not in descriptors:
                continue
            try:
                messages = process.worker.receive()
            except EnvWorkerDied as death:
                self._remove(process, str(death), now)
                continue
            process.heard_at = now
            for message in messages:
                self._handle(process, message, now)

    def maintain(self, now: float) -> None:
        """Start, replace and build everything that is due."""
        for process in self._processes:
            if process.start_at is not None and now >= process.start_at:
                self._start(process, now)
            elif process.awaited and now - process.heard_at > self._hung_after_seconds:
                self._remove(
                    process,
                    f"env process {process.worker.pid} did not answer"
                    f" for {self._hung_after_seconds:.0f} s",
                    now,
                )
            elif process.held:
                going = [n for n in process.worker.slots if self._slots[n].state != "failed"]
                if not process.held.issuperset(going):
                    continue
                for number in going:
                    self._listener.lost(number)
                    self._slots[number].restarts += 1
                    self._slots[number].state = "restarting"
                process.worker.close()
                self._start(process, now)
        for number in [slot for slot, at in self._build_at.items() if now >= at]:
            # A process that dies in between removes the entries of its other slots.
            if self._build_at.pop(number, None) is None:
                continue
            process = self._slots[number].process
            try:
                process.worker.build(number)
            except EnvWorkerDied as death:
                self._remove(process, str(death), now)
                continue
            self._expect(process, [number], now)

    def soonest_due(self, now: float) -> float:
        """Return the seconds until `maintain` has something to do, at most 1."""
        times = [p.start_at for p in self._processes if p.start_at is not None]
        times += self._build_at.values()
        return min([1.0, *(max(0.0, at - now) for at in times)])

    def close(self) -> None:
        for process in self._processes:
            process.worker.close()
        for slot in self._slots:
            slot.state = "failed" if slot.state == "failed" else "stopped"

    def _start(self, process: _Process, now: float) -> None:
        process.start_at = None
        process.held.clear()
        process.worker.start()
        process.started_at = process.heard_at = now
        process.awaited.update(process.worker.slots)

    def _handle(self, process: _Process, message: AnyMessage, now: float) -> None:
        if isinstance(message, Stepped):
            self._took_steps(process, message, now)
            return
        if isinstance(message, Ready):
            self._listener.introduced(message)
            return
        if isinstance(message, InfoReport):
            self._listener.reported_info(message.window)
            return
        number = process.worker.slots[message.row]
        if isinstance(message, Recorded):
            self._listener.recorded(number, message)
            return
        if isinstance(message, OutsideBounds):
            if not self._is_outside_bounds:
                self._is_outside_bounds = True
                text = f"Slot {number}: {message.text}. Later ones are not reported"
                kind = "observation_outside_bounds"
                self._events.add(kind, text, level="warning", slot=number)
            return
        process.awaited.discard(number)
        # A new process also builds slots that were given up; they stay given up.
        if self._slots[number].state == "failed":
            return
        if isinstance(message, Began):
            self._slots[number].state = "running"
            self._listener.began(number, process.worker.observation(message.row))
        else:
            self._mend(number, message, now)

    def _took_steps(self, process: _Process, came: Stepped, now: float) -> None:
        self._has_worked = True
        slots = process.slots[came.rows]
        self._has_stepped[slots] = True
        process.awaited.difference_update(slots.tolist())
        for position, _ in came.finals:
            number = int(slots[position])
            self._slots[number].episodes += 1
            interval = self._restart_interval
            if interval is not None and process.heard_at - process.started_at >= interval:
                process.held.add(number)
        self._listener.stepped(slots, came)
        for crash in came.crashed:
            self._mend(process.worker.slots[crash.row], crash, now)

    @property
    def held(self) -> set[int]:
        """Slots that must not act because their process is about to be replaced."""
        return set().union(*(process.held for process in self._processes))

    def _remove(self, process: _Process, reason: str, now: float) -> None:
        process.worker.kill()
        process.worker.write_line(reason)
        process.awaited.clear()
        process.held.clear()
        wait = process.budget.crashed(now)
        process.start_at = None if wait is None else now + wait
        hit = [n for n in process.worker.slots if self._slots[n].state != "failed"]
        for number in hit:
            slot = self._slots[number]
            slot.state = "failed" if wait is None else "restarting"
            slot.error = reason
            self._build_at.pop(number, None)
            slot.restarts += 1
            self._emit_lost(number)
        what = "given up" if wait is None else "restarting"
        self._emit_crash(wait, f"{reason}; {what}: {len(hit)} slots", slots=hit)

    def _mend(self, number: int, crash: EnvCrashed, now: float) -> None:
        slot, error = self._slots[number], crash.error
        # An invalid value ends only its episode if the environment works between two of them.
        is_only_episode = crash.is_invalid_value and bool(self._has_stepped[number])
        self._has_stepped[number] = False
        wait = 0.0 if is_only_episode else slot.budget.crashed(now)
        if wait is not None:
            self._build_at[number] = now + wait
        slot.state = "failed" if wait is None else "restarting"
        slot.error = error
        slot.restarts += 1
        slot.process.held.discard(number)
        self._emit_lost(number)
        if is_only_episode and now < slot.silent_until:
            slot.unreported += 1
            return
        if is_only_episode:
            slot.silent_until = now + INVALID_VALUE_SECONDS
        unreported, slot.unreported = slot.unreported, 0
        last_line = error.strip().rpartition("\n")[2]
        what = "given up" if wait is None else "restarted"
        more = f" ({unreported} more since the last event)" if unreported else ""
        text = f"Slot {number}: {what} after an error: {last_line}{more}"
        self._emit_crash(wait, text, slot=number, error=error[-2000:])

    def _emit_crash(self, wait: float | None, text: str, **details: Any) -> None:
        kind = "slot_failed" if wait is None else "slot_restarted"
        self._events.add(kind, text, level="error" if wait is None else "warning", **details)

    def _emit_lost(self, number: int) -> None:
        self._listener.lost(number)
        if self._slots[number].state == "failed":
            self._listener.given_up(number)

    def _expect(self, process: _Process, slots: Sequence[int], now: float) -> None:
        if not process.awaited:
            process.heard_at = now
        process.awaited.update(slots)
