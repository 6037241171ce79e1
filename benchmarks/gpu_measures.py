"""Measure step policies, weights and a fleet on a device. See :mod:`benchmarks.gpu_check`."""

import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.sink_platform import SinkPlatform, served
from benchmarks.sink_worker import (
    ACTION,
    CARTPOLE,
    OBSERVATION,
    fresh_weights,
    running,
    settings_of,
)
from rolldeck import safetensors
from rolldeck.safetensors import array_of
from rolldeck.torch_tensors import tensors_of
from rollouts.fleet.environments.loader import describe, make
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.spaces import Space, observations
from runs.config.rules.sections import PolicyConfig

Figures = dict[str, float]
ENVS: Final = 64
WEIGHTS_MB: Final = 100
WORKERS: Final = 2
WAIT_SECONDS: Final = 120.0
WARM_UP: Final = 5
"""Calls before a measurement, which load the libraries of the GPU."""
COUNTED: Final = 20
"""Calls in which copies are counted."""
TOLERANCES: Final = {"float32": 1e-2, "bfloat16": 0.1, "float16": 0.1}
"""Tolerated difference from float32 on the CPU: TF32 has a mantissa of 10 bits."""
IMAGE: Final = observations(gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8))[0]
ENVIRONMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cnn": {"spec": "rolldeck:catch-v0", "kwargs": {"height": 84, "width": 84}}
}
"""Environments of the workers, by policy; CartPole-v1 for others."""
REGISTERED: Final = "module:own_policy.network:LstmPolicy"
NETWORKS: Final[Mapping[str, Mapping[str, tuple[Mapping[str, Any], Space]]]] = {
    "mlp": {
        "64-64": ({"kind": "mlp"}, OBSERVATION),
        "2048-2048-2048": ({"kind": "mlp", "hidden_sizes": [2048] * 3}, OBSERVATION),
    },
    "cnn": {
        "84x84": ({"kind": "cnn", "hidden_sizes": [512]}, IMAGE),
        "84x84 wide": (
            {"kind": "cnn", "hidden_sizes": [512], "channels": [64, 128, 256]},
            IMAGE,
        ),
    },
    "gru": {"512": ({"kind": "gru", "recurrent_units": 512}, OBSERVATION)},
    "registered": {
        "lstm 512": ({"kind": REGISTERED, "kwargs": {"units": 512}}, OBSERVATION),
    },
}
"""Networks by policy and name, of increasing cost; each decides for ``ENVS`` observations."""


class Wrong(RuntimeError):
    """A device computes something else than the CPU, or copies too often."""


def policy(device: str, kind: str, precision: str, seconds: float) -> Figures:
    """Return figures of a policy: in a worker, in a bare loop, and without environments.

    Raises:
        PolicyDoesNotFit: If the device does not support the precision.
        Wrong: If values differ from those of the CPU by more than the tolerance, or an inference
            copies more than once from the device.
    """
    figures: Figures = {}
    for name, (section, observation) in NETWORKS[kind].items():
        config = msgspec.convert({**section, "precision": precision}, PolicyConfig)
        difference = value_difference(config, observation, device)
        figures[f"difference {name}"] = difference
        if not difference < TOLERANCES[precision]:
            raise Wrong(
                f"{name}: a value differs by {difference:.3g} from float32 on the CPU, "
                f"limit {TOLERANCES[precision]:g}"
            )
        figures |= _decisions(config, observation, device, name, seconds)
    section, environment = _in_worker(kind, precision), ENVIRONMENTS.get(kind)
    with running(device=device, policy=section, envs=ENVS, environment=environment) as worker:
        figures["steps_per_second"] = round(worker.rate(seconds))
    if precision == "float32":
        figures["bare_loop"] = round(bare_rate(device, section, environment, seconds))
    return figures


def _in_worker(kind: str, precision: str) -> dict[str, Any]:
    named = REGISTERED if kind == "registered" else kind
    return {"kind": named, "precision": precision}


def _decisions(
    config: PolicyConfig, observation: Space, device: str, name: str, seconds: float
) -> Figures:
    """Return the decisions per second on random observations, and the copies per inference."""
    policy = _loaded(config, observation, device)
    obs, state = _observations(observation), policy.initial_state(ENVS)
    first = np.zeros(ENVS, dtype=np.bool_)
    for _ in range(WARM_UP if device != "cpu" else 1):
        policy.act(obs, state, first)
    copies = copies_per_call(lambda: policy.act(obs, state, first), device)
    made, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        state = policy.act(obs, state, first).state
        made += ENVS
    figures: Figures = {f"decisions_per_second {name}": round(made / (time.monotonic() - began))}
    return figures if copies is None else {**figures, f"copies_per_inference {name}": copies}


def copies_per_call(call: Callable[[], Any], device: str, *, limit: float = 1.0) -> float | None:
    """Return the copies from the GPU per call; None on a CPU, or if the profiler sees no copies.

    Raises:
        Wrong: If there are more than `limit`.
    """
    if device == "cpu":
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(COUNTED):
            call()
        torch.cuda.synchronize()
    copies = sum(event.count for event in profile.key_averages() if "DtoH" in event.key) / COUNTED
    if copies > limit:
        raise Wrong(f"{copies:g} copies from the GPU per call, limit {limit:g}")
    return copies or None


def bare_rate(
    device: str, section: Mapping[str, Any], environment: Mapping[str, Any] | None, seconds: float
) -> float:
    """Return the env steps per second of a policy that steps Gymnasium's vector environments."""
    spec, kwargs = (environment or {"spec": CARTPOLE})["spec"], (environment or {}).get("kwargs")
    config = msgspec.convert(section, PolicyConfig)
    vector = gymnasium.vector.SyncVectorEnv([lambda: make(spec, kwargs or {}).environment] * ENVS)
    observation, action = describe(vector.envs[0])
    policy = _loaded(config, observation, device, action)
    obs, _ = vector.reset(seed=0)
    state, ended = policy.initial_state(ENVS), np.ones(ENVS, dtype=np.bool_)
    steps, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        decision = policy.act(obs, state, ended)
        obs, _, terminated, truncated, _ = vector.step(decision.actions)
        ended, state = terminated | truncated, decision.state
        steps += ENVS
    return steps / (time.monotonic() - began)


def value_difference(config: PolicyConfig, observation: Space, device: str) -> float:
    """Return the largest difference of a value from float32 on the CPU, for ``ENVS`` rows."""
    obs, first = _observations(observation), np.ones(ENVS, dtype=np.bool_)
    exact = msgspec.structs.replace(config, precision="float32")
    values = []
    for one, where in ((config, device), (exact, "cpu")):
        policy = _loaded(one, observation, where)
        values.append(policy.act(obs, policy.initial_state(ENVS), first).values)
    return float(np.abs(values[0] - values[1]).max())


def weights(device: str) -> Figures:
    """Return the time to prepare, adopt and publish a policy's weights of `WEIGHTS_MB`.

    Raises:
        Wrong: If weights that went to the device and back have changed.
    """
    units = round((WEIGHTS_MB * 1e6 / 4 / 4) ** 0.5)
    config = PolicyConfig(hidden_sizes=[units, units, units])
    policy = _loaded(config, OBSERVATION, device)
    tensors = fresh_weights(config)
    began = time.monotonic()
    prepared = policy.prepare(tensors)
    _synchronize(device)
    between = time.monotonic()
    policy.adopt(prepared)
    _synchronize(device)
    adopted = time.monotonic()
    published = safetensors.encode(
        {name: array_of(tensor) for name, tensor in prepared.state_dict().items()}
    )
    encoded = time.monotonic()
    back = safetensors.decode(published)
    changed = [name for name, array in tensors.items() if not np.array_equal(array, back[name])]
    if changed:
        raise Wrong(f"weights changed on the way to the device and back: {', '.join(changed)}")
    size = sum(array.nbytes for array in tensors.values())
    return {
        "mb": round(size / 1e6, 1),
        "prepare_ms": round(1000 * (between - began), 2),
        "adopt_us": round(1e6 * (adopted - between), 1),
        "publish_ms": round(1000 * (encoded - adopted), 2),
    }


def fleet(device: str, seconds: float) -> Figures:
    """Return the env steps per second of a fleet in this process, and the delay of a new version.

    Its workers share the GIL, so this tests the whole rather than its speed. Published tensors are
    on the device.
    """
    platform = SinkPlatform()
    with tempfile.TemporaryDirectory() as folder, served(platform) as url:
        settings = settings_of(
            folder, device=device, policy={"kind": "mlp"}, envs=ENVS, workers=WORKERS, url=url
        )
        publish(platform, settings.config.policy, device, step=0)
        with LocalFleet(settings):
            await_until(lambda: platform.fragments > 0, "the first fragment")
            before, began = platform.fragments, time.monotonic()
            time.sleep(seconds)
            await_until(lambda: platform.fragments > before, "another fragment")
            taken, took = platform.fragments - before, time.monotonic() - began
            publish(platform, settings.config.policy, device, step=1)
            published = time.monotonic()
            await_until(lambda: all_act_with(platform, 1), "the second version")
            adopted = time.monotonic() - published
    steps = taken * settings.config.fleet.fragment_length
    return {"steps_per_second": round(steps / took), "new_version_s": round(adopted, 2)}


def publish(platform: SinkPlatform, config: PolicyConfig, device: str, *, step: int) -> None:
    """Publish initial weights for CartPole-v1 from a device, as `Trainer.publish_weights` does."""
    tensors = {
        name: torch.from_numpy(array).to(device) for name, array in fresh_weights(config).items()
    }
    platform.publish({name: array_of(tensor) for name, tensor in tensors.items()}, step=step)


def all_act_with(platform: SinkPlatform, step: int) -> bool:
    """Return whether every worker acts with this version."""
    workers = platform.report.workers if platform.report else []
    return bool(workers) and all(worker.active_step == step for worker in workers)


def await_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: After `WAIT_SECONDS`.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not arrive within {WAIT_SECONDS:.0f} s")
        time.sleep(0.02)


def _loaded(
    config: PolicyConfig, observation: Space, device: str, action: Space = ACTION
) -> TorchPolicy:
    policy = make_policy(config, observation, action, seed=0, device=device)
    policy.load(fresh_weights(config, observation, action))
    return policy


def _observations(space: Space) -> NDArray[Any]:
    random = np.random.default_rng(0)
    shape = (ENVS, *space.shape)
    if space.dtype == "uint8":
        return random.integers(0, 256, shape, dtype=np.uint8)
    return random.standard_normal(shape, dtype=np.float32)


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def batch_tensors(device: str) -> Figures:
    """Return the time to copy the arrays of a padded batch to a device.

    Raises:
        Wrong: If a tensor differs from its array, or is on another device.
    """
    random = np.random.default_rng(0)
    shape = (128, 8192)
    arrays: dict[str, NDArray[Any]] = {
        "tokens": random.integers(0, 150_000, shape, dtype=np.int32),
        "attention_mask": random.random(shape) < 0.5,
        "inference_logprobs": -random.random(shape, dtype=np.float32),
        "scores": random.random(shape[0], dtype=np.float32),
    }
    tensors_of(arrays, device=device)  # allocates pinned memory
    began = time.monotonic()
    tensors = tensors_of(arrays, device=device)
    if device == "cuda":
        torch.cuda.synchronize()
    took = time.monotonic() - began
    for name, tensor in tensors.items():
        if tensor.device.type != device:
            raise Wrong(f"{name} is on {tensor.device}, not on {device}")
        if not np.array_equal(tensor.cpu().numpy(), arrays[name]):
            raise Wrong(f"{name} changed on the way to the device")
    size = sum(tensor.nbytes for tensor in tensors.values())
    return {"mb": round(size / 1e6, 1), "ms": round(1000 * took, 2)}
