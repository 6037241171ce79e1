"""Workers that sample during weight transfers, and actors that only get an object: for P8."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import ray
import torch
from numpy.typing import NDArray
from torch import nn

from rolldeck.wire import FragmentReceipt
from rollouts.fleet.policies.networks import MlpPolicy, TorchMlp
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsOffer
from rollouts.fleet.worker.messages import WorkerCommand

HIDDEN_SIZES: Final = [64, 64]
PARTS: Final = 8
ACTS_KEPT: Final = 100_000
ADOPT_SECONDS: Final = 60.0


class BallastModule(MlpPolicy):
    """A small network that acts, with additional tensors that are only transferred."""

    def __init__(self, ballast_bytes: int) -> None:
        super().__init__(4, 2, HIDDEN_SIZES)
        numbers = ballast_bytes // 4 // PARTS
        self.ballast = nn.ParameterList([torch.empty(numbers) for _ in range(PARTS)])


def weights(ballast_bytes: int, *, fill: float) -> dict[str, NDArray[Any]]:
    """Return the tensors of a version; each version has new content."""
    with torch.device("cpu"):
        state = BallastModule(8 * PARTS).state_dict()
    tensors = {name: value.numpy().copy() for name, value in state.items()}
    numbers = ballast_bytes // 4 // PARTS
    for part in range(PARTS):
        tensors[f"ballast.{part}"] = np.full(numbers, fill, dtype=np.float32)
    return tensors


class BallastPolicy(TorchMlp):
    """The usual policy with a heavier module; records its inferences and adoptions."""

    def __init__(self, observation: Space, action: Space, *, ballast_bytes: int) -> None:
        with torch.device("meta"):
            module = BallastModule(ballast_bytes)
        super().__init__(module, observation=observation, action=action, seed=1, device="cpu")
        self.acted_at: deque[float] = deque(maxlen=ACTS_KEPT)
        self.adopted_at = 0.0
        self.adoptions = threading.Semaphore(0)

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:
        """Record the time, then act."""
        self.acted_at.append(time.time())
        return super().act(obs, state, first)

    def adopt(self, prepared: nn.Module) -> None:
        """Adopt the weights, then record the time."""
        super().adopt(prepared)
        self.adopted_at = time.time()
        self.adoptions.release()


@ray.remote(num_cpus=0, max_concurrency=8)
class SamplingWorker:
    """A complete rollout worker of a fleet that discards its fragments."""

    def __init__(self, settings: bytes, ballast_bytes: int) -> None:
        self._ballast_bytes = ballast_bytes
        self._policy: BallastPolicy | None = None
        self._has_policy = threading.Event()
        self._wrapper = RolloutWorkerWrapper(
            msgspec.json.decode(settings, type=WorkerSettings),
            push=_swallow,
            policy_factory=self._make,
            owns_process=True,
        )

    def order(self, command: WorkerCommand) -> int:
        """Pass on a worker command; return the env steps so far."""
        return self._wrapper.heartbeat(command).report.env_steps

    def update_weights(self, offer: WeightsOffer) -> tuple[int, int]:
        """Forward an offer like the actor of a fleet."""
        return self._wrapper.update_weights(offer)

    def adopted(self) -> float:
        """Wait for the next version and return the time of its adoption."""
        policy = self._made()
        if not policy.adoptions.acquire(timeout=ADOPT_SECONDS):
            raise TimeoutError("the version was not adopted")
        return policy.adopted_at

    def longest_gap(self, begin: float, end: float) -> float:
        """Return the longest time between two inferences that began in an interval."""
        acts = [begin, *(at for at in tuple(self._made().acted_at) if begin < at < end), end]
        return max(after - before for before, after in pairwise(acts))

    def acts(self, begin: float, end: float) -> int:
        """Return the number of inferences that began in an interval."""
        return sum(begin < at < end for at in tuple(self._made().acted_at))

    def stop(self) -> None:
        """Stop the loops and the environments."""
        self._wrapper.stop()

    def _make(self, observation: Space, action: Space) -> BallastPolicy:
        self._policy = BallastPolicy(observation, action, ballast_bytes=self._ballast_bytes)
        self._has_policy.set()
        return self._policy

    def _made(self) -> BallastPolicy:
        if not self._has_policy.wait(ADOPT_SECONDS) or self._policy is None:
            raise TimeoutError("no environment has started")
        return self._policy


@ray.remote(num_cpus=0)
class BareGetter:
    """One of the peer's four readers."""

    def get(self, refs: list[Any]) -> float:
        """Get the object; return the time of its arrival."""
        tensors: Mapping[str, Any] = ray.get(refs[0])
        return time.time() if tensors else 0.0


def _swallow(fragments: list[bytes]) -> FragmentReceipt:
    return FragmentReceipt(
        accepted=len(fragments), duplicates=0, dropped={}, admission_remaining=1_000_000
    )
