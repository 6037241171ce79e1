"""Factories of the data that the buffer's tests push."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolldeck import wire


def group(*, sequences: int = 2, mark: int = 1, tokens: int = 3, **fields: Any) -> dict[str, Any]:
    """Return a scored group; `mark` is its first token and distinguishes it from others."""
    rows = [[mark, *range(1, tokens)] for _ in range(sequences)]
    return {"tokens": rows, "masks": rows, "scores": [0.5] * sequences, **fields}


def body(content: Any) -> bytes:
    return json.dumps(content).encode()


REGISTRATION = {
    "wandb_group": "a group",
    "wandb_project": "a project",
    "batch_size": 4,
    "max_token_len": 64,
    "checkpoint_dir": "checkpoints",
    "save_checkpoint_interval": 10,
    "starting_step": 0,
    "num_steps": 100,
}
ENVIRONMENT = {"max_token_length": 64, "desired_name": "math", "weight": 1.0, "group_size": 2}


def arrays(steps: int, **changed: NDArray[Any] | None) -> dict[str, wire.Array]:
    """Return the required arrays of a fragment, some replaced or (None) left out."""
    plain: dict[str, NDArray[Any] | None] = {
        "obs": np.zeros((steps, 4), np.float32),
        "action": np.zeros(steps, np.int64),
        "reward": np.ones(steps, np.float32),
        "first": np.zeros(steps, bool),
        "terminated": np.zeros(steps, bool),
        "truncated": np.zeros(steps, bool),
        "behavior_logprob": np.zeros(steps, np.float32),
        "value": np.zeros(steps, np.float32),
        "policy_step": np.zeros(steps, np.int32),
        "episode_index": np.zeros(steps, np.int32),
        "next_obs": np.zeros(4, np.float32),
    }
    return {
        name: wire.pack_array(array)
        for name, array in (plain | changed).items()
        if array is not None
    }


def padded(steps: int, *, real: int, **changed: NDArray[Any] | None) -> dict[str, wire.Array]:
    """Return the arrays of a fragment with `real` real steps and padding."""
    mask = np.arange(steps) < real
    plain = {
        "reward": mask.astype(np.float32),
        "truncated": np.arange(steps) == real - 1,
        "mask": mask,
    }
    return arrays(steps, **(plain | changed))


def fragment(
    *, slot: str = "w0-0@a", number: int = 0, steps: int = 4, **fields: Any
) -> wire.Fragment:
    """Return a fragment of version 0 in epoch 1."""
    plain: dict[str, Any] = {
        "contiguous": number > 0,
        "environment": "gymnasium:CartPole-v1",
        "worker": "0",
        "epoch": 1,
        "version_min": 0,
        "version_max": 0,
        "episode_ids": ["e0"],
        "arrays": arrays(steps),
    }
    return wire.Fragment(slot=slot, number=number, steps=steps, **(plain | fields))


def push(*fragments: wire.Fragment) -> bytes:
    """Return a push body with `fragments`."""
    return wire.encode(
        wire.FragmentPush(fragments=[wire.encode(fragment) for fragment in fragments])
    )
