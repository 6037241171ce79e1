"""Worker that steps many environments with batched inference; independent of Ray."""

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import InfoWindow, SlotReport
from rollouts.fleet.policies.policy_protocol import (
    Policy,
    PolicyDoesNotFit,
    for_environment,
)
from rollouts.fleet.policies.spaces import Space, action_validity, invalid_actions
from rollouts.fleet.process.extensions import ExtensionFailed
from rollouts.fleet.process.logs import OutputPump
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings, derive_seed
from rollouts.fleet.process.spans import CallTimer, PipelineMonitor
from rollouts.fleet.steps.env_messages import Ready, Recorded, Stepped
from rollouts.fleet.steps.env_process_pool import EnvProcessPool
from rollouts.fleet.steps.recordings import Recordings
from rollouts.fleet.steps.slots import ProgressHandler, SlotQueue, Slots
from rollouts.fleet.steps.step_callbacks import ConfiguredCallbacks
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import NO_STEP
from rollouts.fleet.worker.node_cleanup import mark_of

PolicyFactory = Callable[[Space, Space], Policy]


class StepRolloutWorker:
    """Environments, a policy, and the loop between them.

    A caller runs ``while going: worker.turn()``. Other threads may set `is_paused`, and call `wake`
    and the methods of the weights loader.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        weights: WeightsLoader,
        progress_handler: ProgressHandler,
        monitor: PipelineMonitor,
        events: EventLog,
        policy_factory: PolicyFactory | None = None,
        recordings: Recordings | None = None,
    ) -> None:
        """Prepare the worker; the first turn starts it."""
        config = settings.fleet.config
        self._fleet = config.fleet
        self._base_seed = derive_seed(config.seed, "worker", settings.index)
        self._make_policy = policy_factory or self._configured_policy
        # Importing torch takes seconds, during which environments can start.
        self._prepare = None if policy_factory else _import_torch
        self._recordings = recordings
        self._output = OutputPump(settings)
        self._process_pool = EnvProcessPool(
            config,
            base_seed=self._base_seed,
            events=events,
            listener=self,
            output=self._output,
            mark=str(mark_of(settings)),
        )
        self._weights, self._settings = weights, settings
        self._admit_slots = progress_handler.admitted
        self._handlers = [progress_handler]
        """The given handler, followed by the step callbacks of the run."""
        self._monitor, self._events = monitor, events
        self._policy: Policy | None = None
        self._action_space: Space | None = None
        self._is_valid_action: Callable[[NDArray[Any]], bool] = lambda _: True
        slots = config.fleet.envs_per_worker
        self._obs: NDArray[Any] = np.empty(0)
        self._first = np.zeros(slots, dtype=np.bool_)
        self._state: dict[str, NDArray[Any]] = {}
        self._beginning: dict[str, NDArray[Any]] = {}
        """State before the first step of an episode, without the slot axis."""
        self._waiting = SlotQueue()
        """Slots with an observation that may not act on it yet."""
        self._ready = SlotQueue()
        """Slots that may act."""
        self._is_stepping = np.zeros(slots, dtype=np.bool_)
        self._slots = slots
        self._bell, self._button = os.pipe()
        self._closing = threading.Lock()
        self._is_closed = False
        self._reading, self._calling_policy = CallTimer(), CallTimer()
        self._seconds_in_envs = 0.0
        self.is_paused = False
        """Whether no further actions are sent; steps in progress still complete."""
        self.refusal = ""
        """Why the policy, a step callback or the environment cannot be used; empty if all can."""
        self.cannot_recover = False
        """Whether any worker would refuse the same configuration."""
        self.epoch, self.newest_step = 0, NO_STEP
        """Epoch and newest version of the run; only weights of this epoch are used."""

    @property
    def is_broken(self) -> bool:
        return self._process_pool.is_broken

    @property
    def is_preparing(self) -> bool:
        """Whether torch is not imported yet; the process may answer nothing meanwhile."""
        return self._prepare is not None

    @property
    def is_stepping(self) -> bool:
        return bool(np.count_nonzero(self._is_stepping))

    def is_policy_hung(self, now: float) -> bool:
        """Return whether a call of the policy or a step callback has exceeded its limit."""
        limit = self._settings.fleet.config.policy.hung_after_seconds
        return self._calling_policy.seconds(now) > limit

    def hung(self, now: float) -> str:
        """Return which call has blocked the loop for too long; empty if none has."""
        config = self._settings.fleet.config
        if self.is_policy_hung(now):
            has_callbacks = bool(config.environment.step_callbacks)
            called = "the policy or a step callback" if has_callbacks else "the policy"
            limit = config.policy.hung_after_seconds
            return f"{called} did not return for {limit:g} s (policy.hung_after_seconds)"
        limit = config.environment.hung_after_seconds
        if self._reading.seconds(now) > limit:
            # Only environments in the worker's process can block it.
            return (
                f"an environment in the worker's process did not return for {limit:g} s "
                "(environment.hung_after_seconds)"
            )
        return ""

    def reports(self) -> list[SlotReport]:
        return self._process_pool.reports()

    def wake(self) -> None:
        with self._closing:
            if not self._is_closed:
                os.write(self._button, b"!")

    def turn(self) -> None:
        """Wait for something to do, then do it: read environments, adopt weights, infer."""
        now = time.monotonic()
        self._process_pool.maintain(now)
        if self._recordings is not None and self._recordings.has_commands:
            self._recordings.assign(self._process_pool.record, now)
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        longest_seconds = self._process_pool.soonest_due(now)
        if self._ready and not self.is_paused:
            due_at = self._ready.oldest_at + self._fleet.batch_timeout_ms / 1000
            longest_seconds = min(longest_seconds, max(0.0, due_at - now))
        self._receive(longest_seconds)
        if self._policy is None or self.is_paused:
            return
        self._weights.adopt()
        active = self._weights.active
        if active is None or active[0] != self.epoch:
            return
        if self._waiting:
            now = time.monotonic()
            waiting = self._waiting.pop(len(self._waiting))
            held = self._process_pool.held
            free = waiting[~np.isin(waiting, list(held))] if held else waiting
            admitted = self._admit_slots(free)
            self._ready.add(admitted, now)
            if len(admitted) < len(waiting):
                self._waiting.add(waiting[~np.isin(waiting, admitted)], now)
        if self._ready and (
            len(self._ready) >= self._fleet.inference_batch_size
            or not self.is_stepping
            or time.monotonic() - self._ready.oldest_at >= self._fleet.batch_timeout_ms / 1000
        ):
            self._infer()

    def close(self) -> None:
        """End every environment and step callback; further calls do nothing."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._bell)
            os.close(self._button)
        self._process_pool.close()
        self._output.close()
        for handler in self._handlers:
            if isinstance(handler, ConfiguredCallbacks):
                handler.close()

    def introduced(self, ready: Ready) -> None:
        if self._policy is not None or self.refusal:
            return
        self._obs = np.zeros((self._slots, *ready.observation.shape), ready.observation.array_dtype)
        try:
            with self._calling_policy:
                policy = self._make_policy(ready.observation, ready.action)
                state, first = policy.initial_state(self._slots), policy.initial_state(1)
                if callbacks := self._settings.fleet.config.environment.step_callbacks:
                    names = [self._settings.slot_name(slot) for slot in range(self._slots)]
                    self._handlers.append(ConfiguredCallbacks(callbacks, slots=names))
        except (PolicyDoesNotFit, ExtensionFailed) as misfit:
            self._refuse(misfit)
            return
        self._policy, self._action_space = policy, ready.action
        self._is_valid_action = action_validity(ready.action)
        self._state = {name: np.array(rows) for name, rows in state.items()}
        self._beginning = {name: rows[0] for name, rows in first.items()}
        self._weights.serve(self._policy)

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        self._obs[slot] = obs
        self._first[slot] = True
        self._waiting.add(np.array([slot]), time.monotonic())
        for handler in self._handlers:
            handler.began(slot, obs)

    def stepped(self, slots: Slots, came: Stepped) -> None:
        now = time.monotonic()
        self._monitor.record("env_step", came.seconds, now)
        self._seconds_in_envs += came.seconds
        self._obs[slots] = came.obs
        self._first[slots] = came.terminated | came.truncated
        self._is_stepping[slots] = False
        self._waiting.add(slots, now)
        for handler in self._handlers:
            handler.stepped(slots, came)

    def recorded(self, slot: int, came: Recorded) -> None:
        active = self._weights.active
        if self._recordings is not None:
            self._recordings.finished(slot, came, active[1] if active else NO_STEP)

    def reported_info(self, window: InfoWindow) -> None:
        for handler in self._handlers:
            handler.reported_info(window)

    def lost(self, slot: int) -> None:
        if self._recordings is not None:
            self._recordings.lost(slot)
        self._is_stepping[slot] = False
        self._waiting.discard(slot)
        self._ready.discard(slot)
        for handler in self._handlers:
            handler.aborted(slot)

    def given_up(self, slot: int) -> None:
        """Report a slot that gets no further environment, and an environment that never worked."""
        for handler in self._handlers:
            handler.given_up(slot)
        if (error := self._process_pool.refusal) and not self.refusal:
            spec = self._settings.fleet.config.environment.spec
            text = f"{spec} never completed a step: {error.strip().rpartition(chr(10))[2]}"
            details: dict[str, Any] = {"field": "environment.spec", "error": error[-2000:]}
            self._events.add("environment_refused", text, level="error", **details)
            self.cannot_recover, self.refusal = True, text

    def _refuse(self, misfit: PolicyDoesNotFit | ExtensionFailed) -> None:
        kind, details = "policy_refused", dict[str, Any](field=misfit.field)
        if isinstance(misfit, ExtensionFailed):
            kind, details["is_missing"] = "step_callback_refused", misfit.is_missing
        # Emitted before `refusal` is set, so that the event is reported with it.
        self._events.add(kind, str(misfit), level="error", **details)
        # Another node may have the missing device.
        self.cannot_recover = not misfit.field.startswith("fleet.")
        self.refusal = str(misfit)

    def _configured_policy(self, observation: Space, action: Space) -> Policy:
        from rollouts.fleet.policies.factory import make_policy

        return make_policy(
            self._settings.fleet.config.policy,
            observation,
            action,
            seed=derive_seed(self._base_seed, "policy"),
            device=self._fleet.policy_device,
        )

    def _receive(self, longest_seconds: float) -> None:
        """Read what the environments send; wait for it up to a limit."""
        began = time.monotonic()
        # A new poll object each time is ten times as fast as the selectors module.
        poll = select.poll()
        for descriptor in (*self._process_pool.descriptors, self._bell):
            poll.register(descriptor, select.POLLIN)
        came = {descriptor for descriptor, _ in poll.poll(longest_seconds * 1000)}
        now = time.monotonic()
        if not self.is_paused and not self.is_stepping:
            active = self._weights.active
            is_old = active is None or active[0] != self.epoch or active[1] < self.newest_step
            self._monitor.wait(now - began, wants="weights" if is_old else "room")
        if self._bell in came:
            os.read(self._bell, 4096)
            came.discard(self._bell)
        if came:
            self._seconds_in_envs = 0.0
            before = self._monitor.total("cut", "enqueue")
            with self._reading:
                self._process_pool.read(came, now)
            # The handler's time is measured in separate spans.
            inside = self._monitor.total("cut", "enqueue") - before
            inside += self._seconds_in_envs if self._fleet.envs_in_worker else 0.0
            self._monitor.record("recv", max(0.0, time.monotonic() - now - inside), now)

    def _infer(self) -> None:
        version = self._weights.active
        if self._policy is None or self._action_space is None or version is None or self.refusal:
            return
        slots = self._ready.pop(self._fleet.inference_batch_size)
        began = time.monotonic()
        first = self._first[slots]
        before = {name: rows[slots] for name, rows in self._state.items()}
        for name, rows in before.items():
            rows[first] = self._beginning[name]
        try:
            with self._calling_policy:
                decision = self._policy.act(self._obs[slots], before, first)
                inferred = time.monotonic()
                if not self._is_valid_action(decision.actions):
                    invalid = invalid_actions(self._action_space, decision.actions)
                    spec, now = self._settings.fleet.config.environment.spec, time.monotonic()
                    for row, text in invalid.items():
                        self._process_pool.refuse(int(slots[row]), f"{spec}: {text}", now)
                    left = np.delete(np.arange(len(slots)), list(invalid))
                    slots, decision = slots[left], decision.of(left)
                    before = {name: rows[left] for name, rows in before.items()}
                for name, rows in decision.state.items():
                    self._state[name][slots] = rows
                self._is_stepping[slots] = True
                # Reported first: if a process has died meanwhile, the abort comes after the steps.
                for handler in self._handlers:
                    handler.acted(slots, decision, version, before)
        except (PolicyDoesNotFit, ExtensionFailed) as misfit:
            self._refuse(misfit)
            return
        written = time.monotonic()
        self._process_pool.step(
            slots, for_environment(decision.actions, self._action_space), written
        )
        self._monitor.record("infer", inferred - began, inferred)
        self._monitor.record("act", time.monotonic() - written, written)


def _import_torch() -> None:
    import rollouts.fleet.policies.factory  # noqa: F401 imported early to save time later
