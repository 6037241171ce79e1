"""Command ``rolldeck proxy``."""

import argparse
import sys
from collections.abc import Sequence

import uvicorn

from rolldeck import tracing
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection
from rolldeck.profiles import DEFAULT_URL
from rollouts.fleet.capture.calls import PlatformCallStore
from rollouts.fleet.capture.proxy import CaptureProxy
from rollouts.fleet.capture.upstream import UPSTREAM_SECONDS


def main(argv: Sequence[str]) -> int:
    """Serve until a signal arrives; return 1 if the platform refuses."""
    parser = argparse.ArgumentParser(
        prog="rolldeck proxy",
        description="Capture the generations of agent programs for a run.",
    )
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument(
        "--upstream", required=True, help="inference server, such as http://127.0.0.1:8001/v1"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8002)
    parser.add_argument("--api-key", default="", help="API key for agents (default: none)")
    parser.add_argument(
        "--upstream-timeout",
        type=float,
        default=UPSTREAM_SECONDS,
        help="seconds without any byte of a response after which a call fails (default 600)",
    )
    parser.add_argument("--url", help=f"URL of the platform (ROLLDECK_URL; default {DEFAULT_URL})")
    parser.add_argument("--token", help="token with the scope env for the run (ROLLDECK_TOKEN)")
    parser.add_argument(
        "--retry-for",
        type=float,
        default=30.0,
        help="seconds to retry during an outage (default 30)",
    )
    args = parser.parse_args(argv)
    connection = Connection(args.url, args.token, retry_for_seconds=args.retry_for)
    try:
        connection.json(Call(method="GET", path=f"/api/v1/runs/{args.run}"))
    except RolldeckError as refusal:
        print(f"rolldeck proxy: {refusal}", file=sys.stderr)
        connection.close()
        return 1
    tracing.begin("rolldeck-proxy")
    proxy = CaptureProxy(
        upstream=args.upstream,
        store=PlatformCallStore(connection, args.run),
        api_key=args.api_key,
        upstream_seconds=args.upstream_timeout,
    )
    base = f"http://{args.host}:{args.port}/capture/<session>"
    print(f"agents of {args.run}: OPENAI_BASE_URL={base}/v1 ANTHROPIC_BASE_URL={base}", flush=True)
    uvicorn.run(proxy.app, host=args.host, port=args.port, log_level="warning")
    return 0
