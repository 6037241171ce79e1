"""Run the gateway of a Ray cluster, with or without the head itself.

``python -m rollouts.fleet.gateway.command HOST:PORT -- --head --port=PORT …`` starts ``ray start``
with the words after ``--``, and ends with it. Without them, a head of another origin runs on this
machine. HOST:PORT is the head's address; the gateway listens on the port after it. The cluster's
token comes from ``RAY_AUTH_TOKEN``, or the file that ``RAY_AUTH_TOKEN_PATH`` names.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rollouts.fleet import ray_internals
from rollouts.fleet.gateway.messages import gateway_of
from rollouts.fleet.gateway.server import Gateway
from rollouts.fleet.process import child_environment, die_with_parent


def main(words: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM, or until the head ends; return its exit status."""
    parser = argparse.ArgumentParser(prog="rollouts.fleet.gateway.command", description=__doc__)
    parser.add_argument("address", help="host:port of Ray's head, on this machine")
    parser.add_argument("ray", nargs="*", help="words of `ray start`, which is run as well")
    given = parser.parse_args(words)
    child_environment.hide_this_process()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        host, port = gateway_of(given.address)
    except ValueError as error:
        parser.error(f"the address is {given.address!r}; {error}")
    token = _token()
    if not token:
        parser.error("RAY_AUTH_TOKEN is empty: the gateway starts processes for all who have it")
    try:
        gateway = Gateway(given.address, token=token)
    except OSError as error:
        parser.error(
            f"cannot listen on {host}:{port}, the port after that of the head: {error.strerror}. "
            "Use another port of the head, in RAY_ADDRESS too"
        )
    # Started by the main thread, which lives as long as this process: the head ends with it.
    head = None
    if given.ray:
        head = subprocess.Popen(
            [*die_with_parent.shim(signal.SIGTERM), *ray_internals.START, *given.ray]
        )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: head.terminate() if head is not None else ended.set())
    threading.Thread(target=gateway.serve_forever, name="gateway", daemon=True).start()
    if head is not None:
        return head.wait()
    ended.wait()
    return 0


def _token() -> str:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    return Path(path).read_text().strip() if path else os.environ.get("RAY_AUTH_TOKEN", "").strip()


if __name__ == "__main__":
    sys.exit(main())
