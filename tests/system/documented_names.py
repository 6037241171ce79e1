"""Names that the Python blocks of the pages assume. The text is put before each block."""

import ast
import asyncio
import inspect
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np  # noqa: F401 of the pages

from rolldeck import Client, GroupSender, Trainer, safetensors
from rolldeck.fragment_files import read_fragments
from rolldeck.training.chunks import join, stack
from rolldeck_server import add_source

add_source()

url, token = os.environ["ROLLDECK_URL"], os.environ["ROLLDECK_TOKEN"]
TOKEN = token
HEADERS = {"Authorization": f"Bearer {token}"}


def send(method: str, path: str, **fields: Any) -> Any:
    """Send a request below `/api/v1`."""
    body = fields if method != "GET" else None
    answer = httpx.request(method, f"{url}/api/v1/{path}", json=body, headers=HEADERS)
    assert answer.is_success, answer.text
    return answer.json()


def free(name: str) -> None:
    """End and archive the run that another block has left under this name."""
    if send("GET", f"runs?q=name:{name}")["results"]:
        httpx.post(f"{url}/api/v1/runs/{name}/kill", json={"reason": "next"}, headers=HEADERS)
        send("POST", "run-actions", action="archive", q=f"name:{name}")


def outside(name: str, *, groups: int = 8, batch_size: int = 4) -> None:
    """Start an outside run under this name with groups of two sequences."""
    free(name)
    send("POST", "runs", name=name, kind="outside", start=True)
    steps = max(groups * 2 // batch_size, 1)
    send("PATCH", f"runs/{name}", batch_size=batch_size, num_steps=steps)
    with GroupSender(url, name, token) as sender:
        sender.push_groups([group(number) for number in range(groups)])


def group(number: int) -> dict[str, Any]:
    """Return a group of two sequences of three tokens."""
    return {
        "tokens": [[1, 2, number], [1, 3, number]],
        "masks": [[-100, 2, number], [-100, 3, number]],
        "inference_logprobs": [[1.0, -0.5, -0.5], [1.0, -0.5, -0.5]],
        "scores": [1.0, 0.0],
        "metadata": {"difficulty": number},
        "group_overrides": {"level": "easy"},
    }


def fleet(name: str, *, num_steps: int) -> None:
    """Launch a fleet of one worker that ends after some train steps."""
    config = {"num_steps": num_steps, "fleet": {"num_workers": 1}}
    with Client() as client:
        client.runs.create(name, preset="cartpole", config=config)


def tensors(name: str) -> dict[str, Any]:
    """Return initial weights of the policy of a run."""
    return weights_of(send("GET", f"runs/{name}")["config"])


def weights_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return initial weights of the policy of a configuration."""
    # These import torch, which most blocks do not need.
    import msgspec

    from rollouts.fleet.environments.run_spaces import spaces_of
    from rollouts.fleet.policies.factory import make_module
    from runs.config.rules.run_config import RunConfig

    module = make_module(msgspec.convert(config, RunConfig).policy, *spaces_of(config))
    return {key: value.numpy() for key, value in module.state_dict().items()}


def rolled_out() -> Any:
    """Return the fragments that `rolldeck rollout` has written, in the form of a batch."""
    fragments = list(read_fragments("rollouts"))
    return SimpleNamespace(fragments=fragments, stack=lambda: stack(join(fragments)))


def prepare() -> None:
    """Create what the pages take for granted: runs with data, and files of a policy."""
    outside("demo", groups=20, batch_size=64)
    for name in ("gsm8k", "pole"):
        send("POST", "runs", name=name, kind="outside", start=True)
    send("POST", "runs", name="sweep-1", preset="cartpole", tags=["sweep"])
    send("POST", "runs", name="sweep-2", kind="outside", tags=["sweep"], start=True)
    with Trainer(url, "sweep-2", token) as trainer:
        trainer.register(batch_size=8)
        trainer.log_metrics({"loss": 0.5}, step=1)
    config = {"environment": {"spec": "gymnasium:CartPole-v1"}}
    Path("run.json").write_text(json.dumps(config), encoding="utf-8")
    Path("weights.safetensors").write_bytes(safetensors.encode(weights_of(config)))


def run(text: str) -> None:
    """Run a block, also with `await` outside of a function."""
    code = compile(text, "<block>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = eval(code, globals())  # noqa: S307 as a reader would
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
