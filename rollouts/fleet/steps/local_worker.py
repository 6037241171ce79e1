"""A rollout worker without a fleet: its loop, its fragments, and one version of the weights."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from numpy.typing import NDArray

from rolldeck.safetensors import array_of
from rolldeck.wire import encode
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings, derive_seed
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.fragment_builder import FragmentBuilder
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord
from runs.config.rules.run_config import RunConfig

DRAIN_SECONDS: Final = 5.0
"""Time that environments have to answer their last action."""
EPOCH: Final = 1
STEP: Final = 0
UNLIMITED: Final = 1 << 62

Tensors = Mapping[str, NDArray[Any]]


class RolloutFailed(RuntimeError):
    """The worker can make no progress; the text is the reason."""


class InitialWeights:
    """Weights of a rollout: those given, or initial ones that depend on the run's seed only.

    All workers get the same tensors; thread-safe.
    """

    def __init__(self, config: RunConfig, given: Tensors | None) -> None:
        self._config = config
        self._tensors = given
        self._lock = threading.Lock()

    def tensors(self, observation: Space, action: Space) -> Tensors:
        """Return the tensors for the spaces of the environment.

        Raises:
            PolicyDoesNotFit: If the policy does not support the spaces.
        """
        import torch

        from rollouts.fleet.policies.factory import make_module

        with self._lock:
            if self._tensors is None:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(derive_seed(self._config.seed, "weights"))
                    module = make_module(self._config.policy, observation, action)
                state = module.state_dict()
                self._tensors = {name: array_of(value) for name, value in state.items()}
            return self._tensors


class LocalWorker:
    """A :class:`StepRolloutWorker` whose fragments a function takes; `run` is its thread's loop."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        weights: InitialWeights,
        device: str,
        deliver: Callable[[bytes], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Prepare the worker; `run` starts its environments.

        Args:
            settings: Settings of the worker.
            weights: Weights of the policy.
            device: Device of the policy.
            deliver: Takes each encoded fragment.
            is_over: Returns whether the worker must end; called after each turn.
        """
        self._settings, self._config = settings, settings.fleet.config
        self._initial, self._device, self._is_over = weights, device, is_over
        self.events = EventLog()
        monitor = PipelineMonitor(now=time.monotonic())
        self.builder = FragmentBuilder(
            settings,
            deliver=lambda fragment: deliver(encode(fragment)),
            has_room=lambda: True,
            monitor=monitor,
        )
        self.builder.grant(UNLIMITED)
        self._command(begins_fragments=True)
        self._loader = WeightsLoader(self.events, announce_ready=lambda: None)
        self._worker = StepRolloutWorker(
            settings,
            weights=self._loader,
            progress_handler=self.builder,
            monitor=monitor,
            events=self.events,
            policy_factory=self._make_policy,
        )
        self._worker.epoch = EPOCH
        self.unanswered = 0
        """Number of slots whose environment did not answer its last action."""

    def run(self) -> None:
        """Roll out until it is over, then cut the steps of all slots and end the environments.

        Raises:
            RolloutFailed: If the worker can make no progress.
            OSError: If `deliver` cannot write a fragment.
        """
        try:
            while not self._is_over():
                self._turn()
            self._drain()
        except OSError:
            raise  # fragments cannot be written
        except Exception:
            self._end_fragments()
            self._cut_unanswered()
            raise
        finally:
            self._worker.close()

    def wake(self) -> None:
        """End the wait of the current turn; for any thread."""
        self._worker.wake()

    def hung(self, now: float) -> str:
        """Return which call has blocked the loop for too long; empty if none has."""
        limit = self._config.policy.hung_after_seconds
        if self._worker.policy_seconds(now) > limit:
            return f"the policy did not return for {limit:g} s (policy.hung_after_seconds)"
        limit = self._config.environment.hung_after_seconds
        if self._worker.hanging_seconds(now) > limit:
            return f"an environment did not return for {limit:g} s (environment.hung_after_seconds)"
        return ""

    def _turn(self) -> None:
        if self._loader.active is None:
            self._loader.load()
        self._worker.turn()
        if refusal := self._worker.refusal or self._loader.refusal:
            raise RolloutFailed(refusal)
        if self._worker.is_broken:
            raise RolloutFailed(f"every environment slot was given up: {self._last_error()}")

    def _drain(self) -> None:
        """Cut all steps into fragments, after the outcome of each action in progress."""
        self._end_fragments()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.builder.being_filled and time.monotonic() < deadline:
            self._worker.turn()
        self.unanswered = self.builder.being_filled
        if self.unanswered:
            self._cut_unanswered()

    def _end_fragments(self) -> None:
        """Cut the steps of all slots that wait for an action; send no further actions."""
        self._worker.pause()
        self._command(begins_fragments=False)
        self.builder.drain()

    def _cut_unanswered(self) -> None:
        """Cut the steps of the other slots, without their last action."""
        for slot in range(self._config.fleet.envs_per_worker):
            self.builder.aborted(slot)

    def _command(self, *, begins_fragments: bool) -> None:
        self.builder.set_command(epoch=EPOCH, policy_step=STEP, begins_fragments=begins_fragments)
        self.builder.drop_stale_steps()

    def _make_policy(self, observation: Space, action: Space) -> Policy:
        from rollouts.fleet.policies.factory import make_policy

        worker_seed = derive_seed(self._config.seed, "worker", self._settings.index)
        policy = make_policy(
            self._config.policy,
            observation,
            action,
            seed=derive_seed(worker_seed, "policy"),
            device=self._device,
        )
        tensors = self._initial.tensors(observation, action)
        self._loader.offer(WeightsRecord(epoch=EPOCH, step=STEP, tensors=tensors))
        return policy

    def _last_error(self) -> str:
        errors = [slot.error.strip() for slot in self._worker.reports() if slot.error.strip()]
        return errors[-1].rpartition("\n")[2] if errors else "no reason is known"
