"""Measure the computing parts of a fleet's worker on a device. See :mod:`benchmarks.gpu_check`."""

import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.sink_platform import SinkPlatform, served
from benchmarks.sink_worker import ACTION, OBSERVATION, fresh_weights, running, settings_of
from rollouts.fleet.environments import loader as environments
from rollouts.fleet.manager.local_fleet import LocalFleet
from rollouts.fleet.policies.factory import make_module, make_policy
from rollouts.fleet.policies.spaces import Space, observations
from runs.config.rules.policy_config import PolicyConfig

ENVIRONMENT: Final = "CartPole-v1"
ENVS: Final = 64
WEIGHTS_MB: Final = 100
WORKERS: Final = 2
WAIT_SECONDS: Final = 120.0
WARM_UP: Final = 5
"""Decisions before the measurement, which load the libraries of the GPU."""
VECTOR: Final = OBSERVATION
IMAGE: Final = observations(gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8))[0]
NETWORKS: Final[dict[str, tuple[PolicyConfig, Space]]] = {
    "mlp 64-64": (PolicyConfig(), VECTOR),
    "mlp 2048-2048-2048": (PolicyConfig(hidden_sizes=[2048] * 3), VECTOR),
    "gru 512": (PolicyConfig(kind="gru", recurrent_units=512), VECTOR),
    "cnn 84x84": (PolicyConfig(kind="cnn", hidden_sizes=[512]), IMAGE),
    "cnn 84x84 wide": (
        PolicyConfig(kind="cnn", hidden_sizes=[512], channels=[64, 128, 256]),
        IMAGE,
    ),
}
"""Networks of increasing cost; each decides for ``ENVS`` observations at once."""


def throughput(device: str, kind: str, seconds: float) -> dict[str, float]:
    """Return the env steps per second of a worker with a sink, and of the bare loop."""
    with running(device=device, kind=kind, envs=ENVS) as worker:
        rate = worker.rate(seconds)
    bare = bare_rate(device, kind, seconds)
    return {
        "steps_per_second": round(rate),
        "bare_loop": round(bare),
        "of_the_bare_loop": round(rate / bare, 3),
    }


def bare_rate(device: str, kind: str, seconds: float) -> float:
    """Return the env steps per second of a policy that steps Gymnasium's vector environments."""
    spaces = environments.describe(gymnasium.make(ENVIRONMENT))
    config = msgspec.convert({"kind": kind}, PolicyConfig)
    policy = make_policy(config, *spaces, seed=0, device=device)
    policy.load(fresh_weights(config))
    vector = gymnasium.make_vec(ENVIRONMENT, num_envs=ENVS, vectorization_mode="sync")
    obs, _ = vector.reset(seed=0)
    state, ended = policy.initial_state(ENVS), np.ones(ENVS, dtype=np.bool_)
    steps, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        decision = policy.act(obs, state, ended)
        obs, _, terminated, truncated, _ = vector.step(decision.actions)
        ended, state = terminated | truncated, decision.state
        steps += ENVS
    return steps / (time.monotonic() - began)


def fleet(device: str, seconds: float) -> dict[str, float]:
    """Return the env steps per second of a fleet in this process, and the delay of a new version.

    Its workers share the GIL, so this tests the whole rather than its speed.
    """
    platform = SinkPlatform()
    with tempfile.TemporaryDirectory() as folder, served(platform) as url:
        settings = settings_of(
            folder, device=device, kind="mlp", envs=ENVS, workers=WORKERS, url=url
        )
        tensors = fresh_weights(settings.config.policy)
        platform.publish(tensors, step=0)
        with LocalFleet(settings):
            _await(lambda: platform.fragments > 0, "the first fragment")
            before, began = platform.fragments, time.monotonic()
            time.sleep(seconds)
            _await(lambda: platform.fragments > before, "another fragment")
            taken, took = platform.fragments - before, time.monotonic() - began
            platform.publish(tensors, step=1)
            published = time.monotonic()
            _await(lambda: _all_act_with(platform, 1), "the second version")
            adopted = time.monotonic() - published
    steps = taken * settings.config.fleet.fragment_length
    return {
        "steps_per_second": round(steps / took),
        "new_version_s": round(adopted, 2),
    }


def _all_act_with(platform: SinkPlatform, step: int) -> bool:
    workers = platform.report.workers if platform.report else []
    return bool(workers) and all(worker.active_step == step for worker in workers)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not arrive within {WAIT_SECONDS:.0f} s")
        time.sleep(0.02)


def weights(device: str) -> dict[str, float]:
    """Return the time to prepare and to adopt a policy's weights of `WEIGHTS_MB`."""
    units = round((WEIGHTS_MB * 1e6 / 4 / 4) ** 0.5)
    config = PolicyConfig(hidden_sizes=[units, units, units])
    spaces = environments.describe(gymnasium.make(ENVIRONMENT))
    policy = make_policy(config, *spaces, seed=0, device=device)
    tensors = fresh_weights(config)
    policy.load(tensors)
    began = time.monotonic()
    prepared = policy.prepare(tensors)
    _synchronize(device)
    between = time.monotonic()
    policy.adopt(prepared)
    _synchronize(device)
    adopted = time.monotonic()
    size = sum(array.nbytes for array in tensors.values())
    return {
        "mb": round(size / 1e6, 1),
        "prepare_ms": round(1000 * (between - began), 2),
        "adopt_us": round(1e6 * (adopted - between), 1),
        "prepare_mb_per_second": round(size / 1e6 / (between - began)),
    }


def decisions(device: str, config: PolicyConfig, observation: Space, seconds: float) -> float:
    """Return the decisions per second of a policy on random observations, without environments."""
    policy = make_policy(config, observation, ACTION, seed=0, device=device)
    policy.load(_module_weights(config, observation))
    obs, state = _observations(observation), policy.initial_state(ENVS)
    first = np.zeros(ENVS, dtype=np.bool_)
    for _ in range(WARM_UP):
        policy.act(obs, state, first)
    made, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        state = policy.act(obs, state, first).state
        made += ENVS
    return made / (time.monotonic() - began)


def value_difference(config: PolicyConfig, observation: Space) -> float:
    """Return the largest difference between values of GPU and CPU for 64 observations."""
    obs, first = _observations(observation), np.ones(ENVS, dtype=np.bool_)
    tensors = _module_weights(config, observation)
    values = []
    for device in ("cuda", "cpu"):
        policy = make_policy(config, observation, ACTION, seed=0, device=device)
        policy.load(tensors)
        values.append(policy.act(obs, policy.initial_state(ENVS), first).values)
    return float(np.abs(values[0] - values[1]).max())


def _module_weights(config: PolicyConfig, observation: Space) -> dict[str, NDArray[Any]]:
    torch.manual_seed(0)
    module = make_module(config, observation, ACTION)
    return {name: np.array(value) for name, value in module.state_dict().items()}


def _observations(space: Space) -> NDArray[Any]:
    random = np.random.default_rng(0)
    shape = (ENVS, *space.shape)
    if space.dtype == "uint8":
        return random.integers(0, 256, shape, dtype=np.uint8)
    return random.standard_normal(shape, dtype=np.float32)


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
