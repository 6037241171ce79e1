"""Run the head or a node of a Ray cluster, with the platform's packages importable in its workers.

``python -m rolldeck_server.cluster head HOST:PORT -- --head --port=PORT`` and ``python -m
rolldeck_server.cluster node HOST:PORT -- --num-cpus=8``; words after ``--`` are those of
``ray start``.
"""

import sys
from importlib import import_module
from typing import Final

from rolldeck_server import add_source

MODULES: Final = {
    "head": "rollouts.fleet.gateway.command",
    "node": "rollouts.fleet.gateway.node",
}


def main() -> int:
    """Run the part that the first word names; return its exit status."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in MODULES:
        sys.exit(f"usage: python -m rolldeck_server.cluster {'|'.join(MODULES)} HOST:PORT [-- …]")
    add_source()
    status: int = import_module(MODULES[part]).main(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
