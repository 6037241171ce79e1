"""Rollouts on this machine: workers in threads, environments in processes, and an end."""

import math
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from rolldeck.safetensors import array_of
from rolldeck.wire import EpisodeWindow, encode
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings, derive_seed
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.fragments import FragmentBuilder
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.info_values import InfoTotals
from runs.config.rules import run_config
from runs.config.rules.run_config import RunConfig

DRAIN_SECONDS: Final = 5.0
"""Time that environments have to answer their last action."""
EPOCH: Final = 1
STEP: Final = 0
UNLIMITED: Final = 1 << 62

Tensors = Mapping[str, NDArray[Any]]
POLL_SECONDS: Final = 0.1
LOG_FOLDER: Final = "logs"
REFUSALS: Final = frozenset(
    {"weights_refused", "policy_refused", "step_callback_refused", "environment_refused"}
)
"""Events of refusals that end the rollout with the same text."""
SLOT_EVENTS: Final = frozenset({"slot_restarted", "slot_failed"})


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
        """Prepare the worker; `run` starts its environments and calls `is_over` after each turn."""
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
            self._end_fragments()
            deadline = time.monotonic() + DRAIN_SECONDS
            while self.builder.being_filled and time.monotonic() < deadline:
                self._worker.turn()
            self.unanswered = self.builder.being_filled
            if self.unanswered:
                self._cut_unanswered()
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
        return self._worker.hung(now)

    def _turn(self) -> None:
        if self._loader.active is None:
            self._loader.load()
        self._worker.turn()
        if refusal := self._worker.refusal or self._loader.refusal:
            raise RolloutFailed(refusal)
        if self._worker.is_broken:
            errors = [text for slot in self._worker.reports() if (text := slot.error.strip())]
            reason = errors[-1].rpartition("\n")[2] if errors else "no reason is known"
            raise RolloutFailed(f"every environment slot was given up: {reason}")

    def _end_fragments(self) -> None:
        """Cut the steps of all slots that wait for an action; send no further actions."""
        self._worker.is_paused = True
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Amount after which a rollout ends, over all workers; None for no limit."""

    episodes: int | None = None
    """Finished episodes."""
    env_steps: int | None = None
    seconds: float | None = None
    """Time since the first env step."""

    def is_reached(self, *, episodes: int, env_steps: int, seconds: float) -> bool:
        return (
            (self.episodes is not None and episodes >= self.episodes)
            or (self.env_steps is not None and env_steps >= self.env_steps)
            or (self.seconds is not None and seconds >= self.seconds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutResult:
    """Counts and means of a rollout."""

    environment: str
    workers: int
    episodes: int
    """Finished episodes; the means describe these."""
    unfinished_episodes: int
    """Episodes that the end of the rollout or the loss of an environment cut off."""
    return_mean: float | None
    return_min: float | None
    return_max: float | None
    length_mean: float | None
    env_steps: int
    fragments: int
    seconds: float
    """Time from the first env step to the end."""
    env_steps_per_second: float


class LocalRollout:
    """One rollout of a step environment; `run` once."""

    def __init__(
        self,
        config: RunConfig,
        *,
        bound: Bound,
        deliver: Callable[[bytes], None],
        warn: Callable[[str], None],
        log_root: Path,
        tensors: Tensors | None = None,
        device: str = "cpu",
    ) -> None:
        """Prepare the workers without starting their environments.

        Several threads call `deliver` with encoded fragments. The env processes write their output
        into `LOG_FOLDER` below `log_root`. Without `tensors`, the weights derive from the run's
        seed.
        """
        self._config, self._bound, self._warn = config, bound, warn
        # Unique, so that fragments of several rollouts can be used together.
        incarnation = f"local-{secrets.token_hex(4)}"
        settings = FleetSettings(
            platform_url=incarnation,  # marks the processes of this rollout; no request is sent
            token="",
            run=LOG_FOLDER,
            run_config=run_config.to_builtins(config),
            incarnation=incarnation,
            log_root=str(log_root),
        )
        weights = InitialWeights(config, tensors)
        self._workers = [
            LocalWorker(
                WorkerSettings(fleet=settings, index=index, incarnation=incarnation),
                weights=weights,
                device=device,
                deliver=deliver,
                is_over=self._is_over,
            )
            for index in range(config.fleet.num_workers)
        ]
        self._is_stopped = False
        self._failure: Exception | None = None
        self._began_at: float | None = None
        self._ended_at: float | None = None
        self._totals = _Totals()

    def run(self) -> RolloutResult:
        """Roll out until the bound is reached or `stop` is called.

        Raises:
            RolloutFailed: If a worker can make no progress.
            OSError: If a fragment cannot be written.
        """
        threads = [
            threading.Thread(target=self._run, args=[worker], name=f"w{index}", daemon=True)
            for index, worker in enumerate(self._workers)
        ]
        for thread in threads:
            thread.start()
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(POLL_SECONDS)
            self._watch()
        self._watch()
        if self._failure is not None:
            raise self._failure
        if unanswered := sum(worker.unanswered for worker in self._workers):
            self._warn(
                f"{unanswered} environments did not answer within {DRAIN_SECONDS:g} s; the last "
                "action of each is in no fragment"
            )
        self._warn_of_absent_keys()
        env_steps = self._count("env_steps")
        seconds = (self._ended_at or 0.0) - (self._began_at or self._ended_at or 0.0)
        totals = self._totals
        return RolloutResult(
            environment=self._config.environment.spec,
            workers=len(self._workers),
            episodes=totals.episodes,
            unfinished_episodes=totals.unfinished,
            return_mean=totals.return_sum / totals.episodes if totals.episodes else None,
            return_min=totals.return_min if totals.episodes else None,
            return_max=totals.return_max if totals.episodes else None,
            length_mean=totals.length_sum / totals.episodes if totals.episodes else None,
            env_steps=env_steps,
            fragments=self._count("fragments_cut"),
            seconds=round(seconds, 3),
            env_steps_per_second=round(env_steps / seconds, 1) if seconds > 0 else 0.0,
        )

    def stop(self) -> None:
        """End the rollout after the actions in progress; for any thread or signal handler."""
        self._is_stopped = True

    def _run(self, worker: LocalWorker) -> None:
        try:
            worker.run()
        except (RolloutFailed, OSError) as failure:
            self._failure = self._failure or failure
        except Exception as error:  # noqa: BLE001 policies may raise anything
            self._warn(traceback.format_exc(limit=-3).strip())
            self._failure = self._failure or RolloutFailed(f"{type(error).__name__}: {error}")

    def _is_over(self) -> bool:
        now = time.monotonic()
        env_steps = self._count("env_steps")
        if self._began_at is None and env_steps:
            self._began_at = now
        is_over = (
            self._is_stopped
            or self._failure is not None
            or self._bound.is_reached(
                episodes=self._count("episodes_ended"),
                env_steps=env_steps,
                seconds=now - (self._began_at or now),
            )
        )
        if is_over and self._ended_at is None:
            self._ended_at = now
        return is_over

    def _watch(self) -> None:
        """Collect episodes and events, end the waits of a stopped rollout, detect blocked calls.

        Raises:
            RolloutFailed: If a call of the policy or an environment does not return.
        """
        for index, worker in enumerate(self._workers):
            for window in worker.builder.pop_episodes():
                self._totals.add(window)
            for event in worker.events.pop():
                if event.kind in SLOT_EVENTS and not self._count("env_steps"):
                    error = str(event.details.get("error") or event.message).strip()
                    reason = error.rpartition("\n")[2]
                    failure = RolloutFailed(f"no environment started: {reason}")
                    self._failure = self._failure or failure
                elif event.level != "info" and event.kind not in REFUSALS:
                    self._warn(event.message)
            if self._is_stopped:
                worker.wake()
            if hung := worker.hung(time.monotonic()):
                raise RolloutFailed(f"worker {index}: {hung}")

    def _warn_of_absent_keys(self) -> None:
        """Warn of each stored key of `info` that had no number in any step."""
        info = InfoTotals()
        for worker in self._workers:
            info.merge(worker.builder.pop_info())
        for one in info.pop().sums:
            if one.scope == "missing" and one.count == one.total:
                self._warn(
                    f"environment.info: {one.name!r} had no number in {one.count:,} env steps"
                )

    def _count(self, name: str) -> int:
        return sum(getattr(worker.builder, name) for worker in self._workers)


class _Totals:
    """Sums over the episode windows of all workers."""

    def __init__(self) -> None:
        self.episodes = 0
        self.unfinished = 0
        self.return_sum = self.length_sum = 0.0
        self.return_min, self.return_max = math.inf, -math.inf

    def add(self, window: EpisodeWindow) -> None:
        """Add a window; its figures describe the finished episodes, if there are any."""
        finished = window.count - window.aborted
        self.unfinished += window.aborted
        if not finished:
            return
        self.episodes += finished
        self.return_sum += window.return_mean * finished
        self.length_sum += window.length_mean * finished
        self.return_min = min(self.return_min, window.return_min)
        self.return_max = max(self.return_max, window.return_max)
