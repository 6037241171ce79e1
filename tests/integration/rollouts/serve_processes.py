"""Processes of `rolldeck inference` with a tiny checkpoint."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, save_tokenizer
from rollouts.fleet.engine.transformer import Transformer
from tests import processes
from tests.unit.rollouts.fleet.engine.small_models import small_model

ROOT = Path(__file__).resolve().parents[3]
TOKENIZER = AlphabetTokenizer("abcdefghijklmnopqrstuvwxyz 0123456789:\n")
COMMAND = [sys.executable, "-m", "rolldeck.cli", "inference", "--port", "0", "--threads", "1"]
START_SECONDS = 120


def model(seed: int, *, context: int = 256) -> Transformer:
    return small_model(seed=seed, vocab_size=TOKENIZER.vocab_size, max_position_embeddings=context)


def write_checkpoint(folder: Path, weights: Transformer) -> Path:
    checkpoints.save(weights, folder)
    save_tokenizer(TOKENIZER, folder)
    return folder


class Server:
    """A running `rolldeck inference`."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, log: Path) -> None:
        self.process, self.url, self.log = process, url, log

    def ask(self, **fields: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"prompt": [1, 2, 3], "max_tokens": 4, "return_token_ids": True}
        answer = httpx.post(f"{self.url}/completions", json=body | fields, timeout=60)
        assert answer.status_code == 200, answer.text
        choice: dict[str, Any] = answer.json()["choices"][0]
        return choice

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = httpx.get(
            self.url.removesuffix("v1") + "health", timeout=60
        ).json()
        return health

    def wait_for_version(self, version: list[int]) -> None:
        deadline = time.monotonic() + 60
        while self.health()["policy_version"] != version:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)


@contextmanager
def started(checkpoint: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    with (checkpoint.parent / "serve.log").open("w") as errors:
        process = processes.start(
            [*COMMAND, "--checkpoint", str(checkpoint), *more],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": ".:platform:client"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(checkpoint: Path, *more: str) -> Iterator[Server]:
    log = checkpoint.parent / "serve.log"
    with started(checkpoint, *more) as process:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if ready else ""
        match = re.search(r"http://\S+", line)
        assert match, log.read_text()
        yield Server(process, match[0], log)
