"""Unmodified environments of atroposlib generate with our server under each `server_type`."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection

from rollouts.fleet.engine.tokenizers import load_tokenizer
from tests.buffer_factories import REGISTRATION
from tests.contract.tiny_inference import tiny_inference
from tests.live_server import serving
from tests.unit.rollouts.fleet.engine.small_models import logprobs
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.partner]

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "atropos" / "bin" / "python"
ROUTES = {
    "sglang": ("examples/atropos_env.py", "/generate"),
    "vllm": ("examples/atropos_env.py", "/generate"),
    "trl": ("tests/partners/completing_environment.py", "/generate/"),
}


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with serving() as base, httpx.Client(base_url=base, timeout=60) as client:
        yield client
    connection.close()


@pytest.mark.parametrize("server_type", ROUTES)
def test_an_environment_generates_groups_that_a_trainer_receives(
    http: httpx.Client, tmp_path: Path, server_type: str
) -> None:
    program, route = ROUTES[server_type]
    registration = REGISTRATION | {"batch_size": 16, "max_token_len": 64, "starting_step": 0}
    http.post("/register", json=registration).raise_for_status()
    batch: list[dict[str, Any]] = []

    def has_batch() -> bool:
        batch[:] = http.get("/batch").json()["batch"] or []
        return bool(batch)

    with tiny_inference(tmp_path / "tiny") as served:
        is_trl = server_type == "trl"
        options = {
            "env.rollout_server_url": str(http.base_url),
            "env.tokenizer_name": str(served.folder),
            "openai.server_type": server_type,
            "openai.base_url": served.url if is_trl else f"{served.url}/v1",
            "openai.model_name": str(served.folder) if is_trl else "tiny",
            "openai.tokenizer_name": str(served.folder),
        }
        command = [str(PYTHON), program, "serve"]
        command += [text for name, value in options.items() for text in (f"--{name}", value)]
        with (tmp_path / "environment.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(has_batch, seconds=150)
        finally:
            process.terminate()
            process.wait(60)
        paths = {request["path"] for request in served.requests}

    log_text = (tmp_path / "environment.log").read_text()[-3000:]
    assert batch, log_text
    assert route in paths
    tokenizer = load_tokenizer(served.folder)
    for group in batch:
        for tokens, messages in zip(group["tokens"], group["messages"], strict=True):
            # The client of trl writes special tokens, too.
            answer = re.sub(r"<\w+>", "", messages[-1]["content"])
            assert tokenizer.decode(tokens).endswith(answer)
    if is_trl:
        return
    group = batch[0]
    for tokens, masks, own in zip(
        group["tokens"], group["masks"], group["inference_logprobs"], strict=True
    ):
        expected = logprobs(served.model, tokens)
        for at, (mask, logprob) in enumerate(zip(masks, own, strict=True)):
            if mask != -100:
                assert logprob == pytest.approx(expected[at - 1, tokens[at]].item(), abs=1e-4)
