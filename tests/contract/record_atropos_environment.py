r"""Record an unmodified Atropos environment: its inference requests and its pushed groups.

It pushes to the original Atropos server, as the reference for ours. The package has many
dependencies and needs a separate virtual environment:

    python -m venv atropos && atropos/bin/pip install atroposlib==0.4.0
    PYTHONPATH=.:platform:client python tests/contract/record_atropos_environment.py \
        atropos/bin/python > tests/contract/atropos_env_0_4_0.json
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.contract.record_atropos import REGISTRATION, SERVER
from tests.contract.tiny_inference import TinyInference, tiny_inference

ROOT = Path(__file__).resolve().parents[2]
GROUPS, GROUP = 4, 8
SECONDS = 300


@contextmanager
def running(python: str, *command: str) -> Iterator[None]:
    """Run a command of the package until the block ends; its output goes to stderr."""
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([python, *command], cwd=ROOT, env=variables, stdout=sys.stderr)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def answer(base: str, path: str, deadline: float) -> dict[str, Any]:
    """Query the original server, which may still be starting."""
    while True:
        try:
            response = httpx.get(base + path, timeout=30)
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            body: dict[str, Any] = response.json()
            return body


def pushed(base: str, deadline: float) -> list[dict[str, Any]]:
    """Return the groups of one batch."""
    while (batch := answer(base, "/batch", deadline)["batch"]) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the environment pushes nothing")
        time.sleep(0.2)
    groups: list[dict[str, Any]] = batch
    return groups


def record(python: str, inference: TinyInference) -> dict[str, Any]:
    """Run the environment for one batch."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base, deadline = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
    environment = [
        *("tests/contract/distilling_environment.py", "serve"),
        *("--env.rollout_server_url", base),
        *("--env.tokenizer_name", str(inference.folder)),
        *("--openai.base_url", f"{inference.url}/v1"),
        *("--openai.model_name", "tiny"),
        *("--openai.tokenizer_name", str(inference.folder)),
    ]
    with running(python, "-c", SERVER.format(port=port)):
        answer(base, "/", deadline)
        registration = REGISTRATION | {"batch_size": GROUPS * GROUP}
        httpx.post(f"{base}/register", json=registration, timeout=30).raise_for_status()
        # A trainer counts as started after its first request for a batch.
        answer(base, "/batch", deadline)
        with running(python, *environment):
            groups = pushed(base, deadline)
    generated = [request for request in inference.requests if request["path"] == "/generate"][
        :GROUPS
    ]
    probed = [request for request in inference.requests if request["path"] != "/generate"][:1]
    return {"inference": [*probed, *generated], "groups": groups}


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        tiny_inference(Path(folder) / "tiny") as inference,
    ):
        json.dump(record(sys.argv[1], inference), sys.stdout, indent=1)
