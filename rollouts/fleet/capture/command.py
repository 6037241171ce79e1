"""Command ``rolldeck proxy``."""

import sys
from typing import Final
from urllib.parse import quote

import click
import uvicorn

from rolldeck import tracing
from rolldeck.commands.base import ApiCommand, State
from rolldeck.errors import RolldeckError
from rolldeck.http import Call
from rollouts.fleet.capture.calls import PlatformCallStore
from rollouts.fleet.capture.proxy import CaptureProxy
from rollouts.fleet.capture.upstream import UPSTREAM_SECONDS

RETRY_SECONDS: Final = 30.0


@click.command(cls=ApiCommand)
@click.option("--run", required=True, help="Name or id of the run.")
@click.option(
    "--upstream", required=True, help="Inference server, such as http://127.0.0.1:8001/v1."
)
@click.option("--host", default="127.0.0.1", help="Address (default 127.0.0.1).")
@click.option("--port", type=int, default=8002, help="Port (default 8002).")
@click.option("--api-key", default="", help="API key for agents (default: none).")
@click.option(
    "--upstream-timeout",
    type=float,
    default=UPSTREAM_SECONDS,
    metavar="SECONDS",
    help="Time without any byte of a response after which a call fails (default 600).",
)
def proxy(
    state: State,
    run: str,
    upstream: str,
    host: str,
    port: int,
    api_key: str,
    upstream_timeout: float,
) -> None:
    """Capture the generations of agent programs for a run; the token has the scope env.

    Requests to the platform are retried for 30 seconds, or for --retry-for.
    """
    connection = state.connected(retry_for=RETRY_SECONDS)
    try:
        connection.json(Call(method="GET", path=f"/api/v1/runs/{quote(run, safe='')}"))
    except RolldeckError:
        connection.close()
        raise
    tracing.begin("rolldeck-proxy")
    server = CaptureProxy(
        upstream=upstream,
        store=PlatformCallStore(connection, run),
        api_key=api_key,
        upstream_seconds=upstream_timeout,
    )
    base = f"http://{host}:{port}/capture/<session>"
    bases = {"run": run, "openai_base_url": f"{base}/v1", "anthropic_base_url": base}
    state.print(
        bases,
        lambda row: (
            f"agents of {row['run']}: OPENAI_BASE_URL={row['openai_base_url']} "
            f"ANTHROPIC_BASE_URL={row['anthropic_base_url']}"
        ),
    )
    sys.stdout.flush()
    uvicorn.run(server.app, host=host, port=port, log_level="warning")
