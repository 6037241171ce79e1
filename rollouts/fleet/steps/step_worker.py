"""Step many environments with batched inference: a plain object that needs no cluster."""

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import SlotReport
from rollouts.fleet.manager.node_cleanup import mark_of
from rollouts.fleet.policies.policy_protocol import (
    Decision,
    Policy,
    PolicyDoesNotFit,
    State,
    for_environment,
)
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.steps.env_messages import Ready, Recorded, Stepped
from rollouts.fleet.steps.env_process_pool import EnvCrew
from rollouts.fleet.steps.recordings import Recordings
from rollouts.fleet.steps.slot_queue import SlotQueue, Slots
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import NO_STEP
from rollouts.fleet.worker.log_capture import OutputPump
from rollouts.fleet.worker.loops import EventLog
from rollouts.fleet.worker.settings import WorkerSettings, derive_seed
from rollouts.fleet.worker.spans import PipelineMonitor
from runs.core.policy_config import PolicyConfig

PolicyFactory = Callable[[Space, Space], Policy]


class ProgressHandler(Protocol):
    """Takes the steps as they happen, and decides which slots may go on."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """An episode begins in a new environment."""

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """The last actions of ``slots [N]`` led to the N rows of `came`."""

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        """Actions were chosen for `slots` by `version`; `state` is the one before, by row."""

    def aborted(self, slot: int) -> None:
        """The slot's environment is gone; its episode ends here."""

    def given_up(self, slot: int) -> None:
        """The slot, aborted before, will have no further episode."""

    def admitted(self, slots: Slots) -> Slots:
        """Return those of `slots` that may act on their observation now."""


class StepRolloutWorker:
    """Environments, a policy, and the loop between them.

    ``while going: worker.turn()`` is all a caller does; `pause`, `resume`, `wake` and the
    weights' loader may be used from other threads meanwhile.
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
        """Start nothing yet; the first turn does."""
        config = settings.fleet.config
        self._fleet = config.fleet
        base_seed = derive_seed(config.seed, "worker", settings.index)
        self._make_policy = policy_factory or self._configured(config.policy, base_seed)
        # Importing torch takes seconds, in which environments can start.
        self._prepare = None if policy_factory else _import_torch
        self._recordings = recordings
        self._output = OutputPump(settings)
        self._crew = EnvCrew(
            config,
            base_seed=base_seed,
            events=events,
            listener=self,
            output=self._output,
            mark=str(mark_of(settings)),
        )
        self._weights = weights
        self._handler = progress_handler
        self._monitor = monitor
        self._events = events
        self._policy: Policy | None = None
        self._action_space: Space | None = None
        slots = config.fleet.envs_per_worker
        self._obs: NDArray[Any] = np.empty(0)
        self._first = np.zeros(slots, dtype=np.bool_)
        self._state: dict[str, NDArray[Any]] = {}
        self._beginning: dict[str, NDArray[Any]] = {}
        """State before the first step of an episode, without the axis of slots."""
        self._waiting = SlotQueue()
        """Slots with an observation, until they may act on it."""
        self._ready = SlotQueue()
        """Slots that may act."""
        self._is_stepping = np.zeros(slots, dtype=np.bool_)
        self._slots = slots
        self._bell, self._button = os.pipe()
        self._closing = threading.Lock()
        self._is_closed = False
        self._hearing_since: float | None = None
        self._seconds_in_envs = 0.0
        self.is_paused = False
        self.refusal = ""
        """Why there is no policy for these environments, if so; it will not act."""
        self.is_hopeless = False
        """Whether the same configuration would be refused by any worker."""
        self.epoch = 0
        """The run's; weights of any other are not acted with."""

    @property
    def is_broken(self) -> bool:
        """Whether every slot was given up."""
        return self._crew.is_broken

    @property
    def is_stepping(self) -> bool:
        """Whether any slot is carrying out an action."""
        return bool(np.count_nonzero(self._is_stepping))

    def hanging_seconds(self, now: float) -> float:
        """Return for how long environments in this very process have kept the loop."""
        since = self._hearing_since
        return 0.0 if since is None else now - since

    def reports(self) -> list[SlotReport]:
        """Return the state of every slot."""
        return self._crew.reports()

    def pause(self) -> None:
        """Let no further action out; the steps under way come in."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on where `pause` stopped."""
        self.is_paused = False
        self.wake()

    def wake(self) -> None:
        """End the wait of the turn that is under way."""
        with self._closing:
            if not self._is_closed:
                os.write(self._button, b"!")

    def turn(self) -> None:
        """Wait for something to do, then do it: hear environments, adopt weights, infer."""
        now = time.monotonic()
        self._crew.tend(now)
        if self._recordings is not None and self._recordings.has_orders:
            self._recordings.assign(self._crew, now)
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare()
        self._hear(self._patience(now))
        if self._policy is None or self.is_paused:
            return
        self._weights.adopt()
        active = self._weights.active
        if active is None or active[0] != self.epoch:
            return
        self._admit(time.monotonic())
        if self._is_batch_due(time.monotonic()):
            self._infer()

    def close(self) -> None:
        """End every environment."""
        self._crew.close()
        self._output.close()
        with self._closing:
            if not self._is_closed:
                os.close(self._bell)
                os.close(self._button)
            self._is_closed = True

    def introduced(self, ready: Ready) -> None:
        """Make the policy once it is known what environments look like."""
        if self._policy is not None or self.refusal:
            return
        self._obs = np.zeros((self._slots, *ready.observation.shape), ready.observation.array_dtype)
        try:
            self._policy = self._make_policy(ready.observation, ready.action)
        except PolicyDoesNotFit as misfit:
            # Told first: whoever sees the refusal finds the event too.
            self._events.add("policy_refused", str(misfit), level="error", field=misfit.field)
            # Another node may have the device that is missing here.
            self.is_hopeless = not misfit.field.startswith("fleet.")
            self.refusal = str(misfit)
            return
        self._action_space = ready.action
        state = self._policy.initial_state(self._slots)
        self._state = {name: np.array(rows) for name, rows in state.items()}
        self._beginning = {name: rows[0] for name, rows in self._policy.initial_state(1).items()}
        self._weights.serve(self._policy)

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Take the first observation of a new environment."""
        self._obs[slot] = obs
        self._first[slot] = True
        self._waiting.add(np.array([slot]), time.monotonic())
        self._handler.began(slot, obs)

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Take what followed the actions of `slots`."""
        now = time.monotonic()
        self._monitor.record("env_step", came.seconds, now)
        self._seconds_in_envs += came.seconds
        self._obs[slots] = came.obs
        self._first[slots] = came.terminated | came.truncated
        self._is_stepping[slots] = False
        self._waiting.add(slots, now)
        self._handler.stepped(slots, came)

    def recorded(self, slot: int, came: Recorded) -> None:
        """Hand over the film of an episode that is over."""
        active = self._weights.active
        if self._recordings is not None:
            self._recordings.finished(slot, came, active[1] if active else NO_STEP)

    def lost(self, slot: int) -> None:
        """Forget what the slot was doing."""
        if self._recordings is not None:
            self._recordings.lost(slot)
        self._is_stepping[slot] = False
        self._waiting.discard(slot)
        self._ready.discard(slot)
        self._handler.aborted(slot)

    def given_up(self, slot: int) -> None:
        """Expect nothing more of the slot."""
        self._handler.given_up(slot)

    def _configured(self, config: PolicyConfig, base_seed: int) -> PolicyFactory:
        def make(observation: Space, action: Space) -> Policy:
            from rollouts.fleet.policies.factory import make_policy

            seed = derive_seed(base_seed, "policy")
            return make_policy(config, observation, action, seed=seed, device=self._fleet.device)

        return make

    def _patience(self, now: float) -> float:
        """Return how long this turn may wait for environments, in seconds."""
        longest = self._crew.soonest_due(now)
        if self._ready and not self.is_paused:
            due_at = self._ready.oldest_at + self._fleet.batch_timeout_ms / 1000
            longest = min(longest, max(0.0, due_at - now))
        return longest

    def _hear(self, longest_seconds: float) -> None:
        began = time.monotonic()
        came = _readable([*self._crew.descriptors, self._bell], longest_seconds)
        now = time.monotonic()
        if not self.is_paused and not self.is_stepping:
            self._monitor.wait(now - began, wants=self._wants())
        if self._bell in came:
            os.read(self._bell, 4096)
            came.discard(self._bell)
        if came:
            self._hearing_since, self._seconds_in_envs = now, 0.0
            before = self._monitor.total("cut", "enqueue")
            self._crew.hear(came, now)
            self._hearing_since = None
            # What the handler did meanwhile is measured as spans of its own.
            inside = self._monitor.total("cut", "enqueue") - before
            inside += self._seconds_in_envs if self._fleet.envs_in_worker else 0.0
            self._monitor.record("recv", max(0.0, time.monotonic() - now - inside), now)

    def _wants(self) -> Literal["room", "weights"]:
        """Return what keeps the slots from acting while none of them does."""
        active = self._weights.active
        return "weights" if active is None or active[0] != self.epoch else "room"

    def _admit(self, now: float) -> None:
        if not self._waiting:
            return
        waiting = self._waiting.take(len(self._waiting))
        held = self._crew.held
        free = waiting[~np.isin(waiting, list(held))] if held else waiting
        admitted = self._handler.admitted(free)
        self._ready.add(admitted, now)
        if len(admitted) < len(waiting):
            self._waiting.add(waiting[~np.isin(waiting, admitted)], now)

    def _is_batch_due(self, now: float) -> bool:
        if not self._ready:
            return False
        if len(self._ready) >= self._fleet.inference_batch_size or not self.is_stepping:
            return True
        return now - self._ready.oldest_at >= self._fleet.batch_timeout_ms / 1000

    def _infer(self) -> None:
        version = self._weights.active
        if self._policy is None or self._action_space is None or version is None:
            return
        slots = self._ready.take(self._fleet.inference_batch_size)
        began = time.monotonic()
        first = self._first[slots]
        before = {name: rows[slots] for name, rows in self._state.items()}
        for name, rows in before.items():
            rows[first] = self._beginning[name]
        decision = self._policy.act(self._obs[slots], before, first)
        inferred = time.monotonic()
        for name, rows in decision.state.items():
            self._state[name][slots] = rows
        self._is_stepping[slots] = True
        # Told first: a process that died in the meantime aborts steps that are written down.
        self._handler.acted(slots, decision, version, before)
        written = time.monotonic()
        self._crew.step(slots, for_environment(decision.actions, self._action_space), written)
        self._monitor.record("infer", inferred - began, inferred)
        self._monitor.record("act", time.monotonic() - written, written)


def _readable(descriptors: Sequence[int], longest_seconds: float) -> set[int]:
    """Wait until one of `descriptors` can be read or has hung up, or for so long."""
    # Made anew each time: the standard library's selectors take ten times as long over it.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(longest_seconds * 1000)}


def _import_torch() -> None:
    import rollouts.fleet.policies.factory  # noqa: F401 before it is needed
