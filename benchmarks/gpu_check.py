"""Run the computing parts of a fleet on this machine's GPU, or say plainly that it has none.

`make gpu-check`. Needs torch, numpy, gymnasium, msgspec and safetensors only: neither Ray nor
Django, no platform and no network. A worker like those of a fleet steps CartPole-v1 into a sink,
with every kind of policy, on each device, beside the bare loop of the same policy; then 100 MB of
weights are prepared beside it and adopted. Figures go to `benchmarks/results/gpu-<name>.json`.
"""

import argparse
import json
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
import torch

from benchmarks.sink_worker import fresh_weights, running
from rollouts.fleet import environments
from rollouts.fleet.policies import make_policy
from runs.core.policy_config import PolicyConfig

RESULTS: Final = Path(__file__).with_name("results")
ENVIRONMENT: Final = "CartPole-v1"
ENVS: Final = 64
WEIGHTS_MB: Final = 100
KINDS: Final = ("mlp", "gru")


def main() -> int:
    """Measure every device, print, and write the figures down."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    asked = parser.parse_args()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    found: dict[str, Any] = {
        "gpu": name or None,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    print(name or "No GPU: torch sees no CUDA device here. What follows ran on the CPU only.")
    for device in ("cuda", "cpu") if name else ("cpu",):
        found[device] = {kind: _said(device, kind, asked.seconds) for kind in KINDS}
        found[device]["weights"] = swapped = weights(device)
        print(f"{device}: {WEIGHTS_MB} MB of weights: {_words(swapped)}")
    asked.folder.mkdir(exist_ok=True, parents=True)
    slug = re.sub(r"\W+", "-", name.lower()).strip("-") or "none"
    path = asked.folder / f"gpu-{slug}.json"
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0


def _said(device: str, kind: str, seconds: float) -> dict[str, float]:
    figures = throughput(device, kind, seconds)
    print(f"{device} {kind}: {_words(figures)}")
    return figures


def _words(figures: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in figures.items())


def throughput(device: str, kind: str, seconds: float) -> dict[str, float]:
    """Return env steps a second of a worker into a sink, and of the bare loop."""
    with running(device=device, kind=kind, envs=ENVS) as worker:
        ours = worker.rate(seconds)
    bare = bare_rate(device, kind, seconds)
    return {
        "steps_per_second": round(ours),
        "bare_loop": round(bare),
        "of_the_bare_loop": round(ours / bare, 3),
    }


def bare_rate(device: str, kind: str, seconds: float) -> float:
    """Return env steps a second of the policy stepping Gymnasium's vector environments."""
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


def weights(device: str) -> dict[str, float]:
    """Return what it takes to prepare and to adopt a policy's weights of `WEIGHTS_MB`."""
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


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
