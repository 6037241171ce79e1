"""Serve the platform on a socket that the supervisor has bound.

Run as ``python -m config.embedded.web FD WORKERS``. The supervisor keeps the socket open: while
the web process is started again, connections wait instead of being refused.
"""

import socket
import sys
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

GRACE_SECONDS: Final = 2
# Live pages send a few words; trainers and fleets use HTTP.
MAX_SOCKET_MESSAGE_BYTES: Final = 64 * 1024


def serve(listener: socket.socket, *, workers: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        "config.asgi:application",
        workers=workers,
        access_log=False,
        log_level="warning",
        lifespan="off",
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_ping_interval=20.0,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http="config.http_protocol:BoundedHttp",
        server_header=False,
        # Without a proxy in front, a forwarded address is whatever the client claims.
        proxy_headers=False,
    )
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), workers=int(sys.argv[2]))
