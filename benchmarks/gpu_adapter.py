"""Measure a LoRA adapter on a device. See :mod:`benchmarks.gpu_check`."""

import time
from copy import deepcopy
from typing import Final

import torch

from benchmarks.gpu_engine import (
    CHECKED_TOKENS,
    PROMPT,
    ROWS,
    TOLERANCES,
    difference_of,
    example_model,
    prompt_of,
)
from benchmarks.gpu_measures import Figures, Wrong
from rolldeck import safetensors
from rolldeck.safetensors import array_of
from rollouts.fleet.engine.checkpoints import (
    AdaptedModel,
    named_tensors,
    published_tensors,
    restore,
    whole,
)
from rollouts.fleet.engine.engine import Engine, generate
from rollouts.fleet.policies.base import tensor_of
from runs.config.rules.language_config import AdapterConfig

ADAPTER: Final = AdapterConfig(rank=8, alpha=16.0)


def adapter(device: str, precision: str) -> Figures:
    """Return the time of a training step of a LoRA adapter, and of its publication.

    Raises:
        Wrong: If the step trains the model below or leaves the adapter unchanged, tensors change on
            the way to the CPU and back, or log probabilities of the merged model differ from
            float32 on the CPU by more than the tolerance.
    """
    base = example_model().to(device, getattr(torch, precision))
    before = {name: one.clone() for name, one in named_tensors(base)}
    policy = AdaptedModel(base, ADAPTER)
    step_ms = _trained(policy, device)
    if changed := [name for name, one in named_tensors(base) if not torch.equal(one, before[name])]:
        raise Wrong(f"the step of the adapter changed the model: {', '.join(changed)}")
    published = published_tensors(policy)
    began = time.monotonic()
    content = safetensors.encode({name: array_of(one) for name, one in published.items()})
    publish_ms = 1000 * (time.monotonic() - began)
    follower = AdaptedModel(deepcopy(base), ADAPTER)
    restore(follower, {k: tensor_of(one) for k, one in safetensors.decode(content).items()})
    restored = published_tensors(follower)
    if changed := [name for name, one in published.items() if not torch.equal(one, restored[name])]:
        raise Wrong(f"the adapter changed on the way to the CPU and back: {', '.join(changed)}")
    if not any(bool(one.any()) for name, one in published.items() if ".lora_B." in name):
        raise Wrong("the step left the adapter unchanged")
    merged = whole(follower)
    answers = generate(Engine(merged, rows=ROWS), [prompt_of(8, CHECKED_TOKENS)])[0]
    difference = difference_of(deepcopy(merged).to("cpu", torch.float32), answers)
    if not difference < TOLERANCES[precision]:
        raise Wrong(
            f"a log probability differs by {difference:.3g} from float32 on the CPU, "
            f"limit {TOLERANCES[precision]:g}"
        )
    return {
        "kb": round(len(content) / 1e3, 1),
        "step_ms": round(step_ms, 2),
        "publish_ms": round(publish_ms, 2),
        "difference": difference,
    }


def _trained(model: AdaptedModel, device: str) -> float:
    """Train the adapter towards one token; return the milliseconds of the second step."""
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    tokens = torch.tensor([PROMPT] * ROWS, device=device)
    took = 0.0
    for _ in range(2):
        began = time.monotonic()
        loss = -torch.log_softmax(model(tokens)[:, -1].float(), dim=-1)[:, 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        took = 1000 * (time.monotonic() - began)
    return took
