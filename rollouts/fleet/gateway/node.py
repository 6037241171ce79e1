"""Run a node of the cluster that ends with the cluster's head.

``python -m rollouts.fleet.gateway.node HOST:PORT -- --num-cpus=4 …`` runs ``ray start`` with the
head's address and the words after ``--``, once a head is there. A raylet takes about a minute to
find that a new head does not know it; this process asks the gateway every second. Its
supervisor, such as a container's restart policy, starts it again, and the node joins the new head.
"""

import argparse
import http.client
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psutil

from rollouts.fleet import ray_internals
from rollouts.fleet.gateway.messages import gateway_of
from rollouts.fleet.process import die_with_parent

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
STOP_SECONDS: Final = 2.0
"""Time for Ray's processes to end before they are killed."""
EXIT_STATUS: Final = 75  # EX_TEMPFAIL
"""Status of a node whose head has ended."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the node until it ends, or SIGTERM, or the head has ended."""
    parser = argparse.ArgumentParser(prog="rollouts.fleet.gateway.node", description=__doc__)
    parser.add_argument("address", help="host:port of Ray's head")
    parser.add_argument("ray", nargs="*", help="further words of `ray start`")
    given = parser.parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        gateway = gateway_of(given.address)
    except ValueError as error:
        parser.error(f"the address is {given.address!r}; {error}")
    while not (head := head_at(*gateway)):
        logger.info("no head at %s yet", given.address)
        time.sleep(POLL_SECONDS)
    node = subprocess.Popen(
        [
            *die_with_parent.shim(signal.SIGTERM),
            *ray_internals.START,
            f"--address={given.address}",
            *given.ray,
        ]
    )
    signal.signal(signal.SIGTERM, lambda *_: node.terminate())
    while True:
        try:
            return node.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if head_at(*gateway) in {head, None}:
                continue
        logger.info("the head at %s has ended: this node ends too", given.address)
        _end(node)
        return EXIT_STATUS


def _end(node: "subprocess.Popen[bytes]") -> None:
    """End `ray start` and all that it started: Ray starts no head beside a node of its address."""
    started = psutil.Process(node.pid).children(recursive=True)
    node.terminate()
    with suppress(subprocess.TimeoutExpired):
        node.wait(STOP_SECONDS)
    for process in started:
        with suppress(psutil.Error):  # it has ended
            process.kill()
    node.kill()
    node.wait()


def head_at(host: str, port: int) -> str | None:
    """Return the id of the running head; empty if none runs, None if that is not known."""
    connection = http.client.HTTPConnection(host, port, timeout=POLL_SECONDS)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == http.client.OK else ""
    except ConnectionRefusedError:
        return ""
    except (OSError, http.client.HTTPException):  # a slow machine or network
        return None
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
