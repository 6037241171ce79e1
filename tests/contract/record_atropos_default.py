r"""Record every request of an Atropos environment that implements `collect_trajectory` only.

Its requests pass through a proxy to the original server, whose responses are recorded too.
In the virtual environment of `record_atropos_environment.py`:

    PYTHONPATH=.:platform:client python tests/contract/record_atropos_default.py \
        atropos/bin/python > tests/contract/atropos_default_0_4_0.json
"""

import gzip
import json
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from examples import tiny_checkpoint
from tests.contract.record_atropos import REGISTRATION, SERVER
from tests.contract.record_atropos_environment import SECONDS, answer, pushed, running
from tests.stand_ins.inference_servers import listening

GROUP_SIZE = 4


def forwarding(base: str, recorded: list[dict[str, Any]]) -> Starlette:
    """Return an app that forwards requests to `base` and records them with their responses."""

    async def forward(request: Request) -> Response:
        body = await request.body()
        is_gzip = request.headers.get("content-encoding") == "gzip"
        plain = gzip.decompress(body) if is_gzip else body
        async with httpx.AsyncClient(timeout=30) as client:
            given = await client.request(
                request.method,
                base + request.url.path,
                content=plain,
                headers={"Content-Type": "application/json"},
            )
        recorded.append(
            {
                "method": request.method,
                "path": request.url.path,
                "content": json.loads(plain) if plain else None,
                "gzip": is_gzip,
                "status": given.status_code,
                "answer": given.json(),
            }
        )
        return Response(given.content, given.status_code, media_type="application/json")

    ready = Route("/health", lambda _: Response())
    return Starlette(routes=[ready, Route("/{path:path}", forward, methods=["GET", "POST"])])


def record(python: str, tokenizer: Path) -> list[dict[str, Any]]:
    """Run the environment for one batch of two groups, which is recorded last."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base, deadline = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
    recorded: list[dict[str, Any]] = []
    server = running(python, "-c", SERVER.format(port=port))
    with server, listening(forwarding(base, recorded)) as url:
        answer(base, "/", deadline)
        registration = REGISTRATION | {"batch_size": 2 * GROUP_SIZE}
        httpx.post(f"{base}/register", json=registration, timeout=30).raise_for_status()
        # A trainer counts as started after its first request for a batch.
        answer(base, "/batch", deadline)
        command = ["tests/contract/single_trajectory_environment.py", "serve"]
        command += ["--env.rollout_server_url", url, "--env.tokenizer_name", str(tokenizer)]
        with running(python, *command):
            batch = pushed(base, deadline)
    return [*without_repetitions(recorded), {"batch": batch}]


def without_repetitions(recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most two requests of each route, in order: the environment repeats itself."""
    unique: list[dict[str, Any]] = []
    for request in recorded:
        if sum(other["path"] == request["path"] for other in unique) < 2:
            unique.append(request)
    return unique


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tiny_checkpoint.write(Path(folder))
        json.dump(record(sys.argv[1], Path(folder)), sys.stdout, indent=1)
