"""Runs, programs and groups of the tests with TRL."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from rolldeck import safetensors
from rolldeck.http import Connection
from rolldeck.published_weights import find_version, read_version
from rolldeck.sender import GroupSender
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from tests.partners.programs import program
from tests.server import ADMIN_TOKEN, Server

PROGRAM: Final = "tests/partners/trl_program.py"
PROMPT: Final = (2, 3)
FEEDBACK: Final = (4, 5)
"""Tokens of the environment in the middle of an answer."""
ANSWER_TOKENS: Final = 4
TARGET: Final = 7
"""Token that the scores reward."""


def write_checkpoint(server: Server, folder: Path, *, seed: int = 1) -> Path:
    """Write a two-layer Qwen with transformers; return its folder."""
    settings = {"program": "checkpoint", "folder": str(folder), "seed": seed}
    with program(server, folder.with_suffix(".log"), PROGRAM, json.dumps(settings)) as writer:
        writer.finish()
    return folder


def settings_of(server: Server, run: str, checkpoint: Path, **more: Any) -> str:
    """Return the settings of a training program as its argument."""
    own = {"url": server.url, "run": run, "token": ADMIN_TOKEN, "checkpoint": str(checkpoint)}
    return json.dumps({"program": "train"} | own | more)


def new_run(server: Server, *, steps: int | None = None) -> str:
    """Start an outside run that completes after a number of batches."""
    run = server.new_run("trl")
    if steps is not None:
        body = {"num_steps": steps, "ends_at_num_steps": True}
        server.http.patch(f"/api/v1/runs/{run}", json=body).raise_for_status()
    return run


def language_run(server: Server, language: dict[str, Any]) -> str:
    """Create a language run whose groups have four sequences; return its name."""
    name = f"trl-words-{uuid4().hex[:6]}"
    config = {
        "language": {"group_size": 4, **language},
        "buffer": {"batch_size": 8},
    }
    server.post("/api/v1/runs", {"name": name, "config": config})
    return name


def push(server: Server, run: str, groups: Sequence[dict[str, Any]]) -> None:
    """Push groups as an environment does."""
    with GroupSender(server.url, run, ADMIN_TOKEN, logprob_dtype="float32") as sender:
        sender.push_groups(groups)


def states(server: Server, run: str) -> dict[int, str]:
    """Return the state of each batch."""
    rows = server.get(f"/api/v1/runs/{run}/batches")["results"]
    return {row["ordinal"]: row["state"] for row in rows}


def model_in(folder: Path) -> Transformer:
    """Return the engine's model of a checkpoint."""
    return checkpoints.load(folder, dtype=torch.float32)


def logprobs_of(model: Transformer, tokens: Tensor) -> Tensor:
    """Return the log probabilities of ``tokens[:, 1:]``, ``[B, T − 1]``."""
    every = torch.log_softmax(model(tokens[:, :-1]), dim=-1)
    return every.gather(-1, tokens[:, 1:, None]).squeeze(-1)


def sampled_group(
    model: Transformer, random: torch.Generator, *, sequences: int = 4, **fields: Any
) -> dict[str, Any]:
    """Return a group whose answers the model has sampled, around a message of the environment."""
    rows = torch.tensor([PROMPT] * sequences)
    flags = [False] * len(PROMPT)
    for turn in range(2):
        if turn:
            rows = torch.cat([rows, torch.tensor([FEEDBACK] * sequences)], dim=1)
            flags += [False] * len(FEEDBACK)
        for _ in range(ANSWER_TOKENS):
            with torch.no_grad():
                chances = torch.softmax(model(rows)[:, -1], dim=-1)
            drawn = torch.multinomial(chances, 1, generator=random)
            rows = torch.cat([rows, drawn], dim=1)
            flags.append(True)
    trained = torch.tensor(flags)
    with torch.no_grad():
        logprobs = torch.cat([torch.zeros(sequences, 1), logprobs_of(model, rows)], dim=1)
    share = (rows[:, trained] == TARGET).float().mean(dim=1)
    return {
        "tokens": rows.numpy().astype(np.int32),
        "masks": torch.where(trained, rows, -100).numpy().astype(np.int32),
        "inference_logprobs": torch.where(trained, logprobs, 1.0).numpy(),
        "scores": (share + torch.arange(sequences) / 8).tolist(),
    } | fields


def published(server: Server, run: str, step: int) -> dict[str, Tensor]:
    """Return the tensors of a published version."""
    with Connection(server.url, ADMIN_TOKEN) as connection:
        version = find_version(connection, run, step)
        content = read_version(connection, run, version)
    return {name: torch.tensor(array) for name, array in safetensors.decode(content).items()}
