"""Serve the platform, with every bound that the server itself has to keep.

``python -m config.web 0.0.0.0:8000 2`` serves on an address with two processes.
``python -m config.web 7 1`` serves on a socket that the supervisor has bound and passed on as
file 7: while the web process is started again, connections wait there instead of being refused.
"""

import socket
import sys
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from config.patient_sockets import PATIENCE_SECONDS, PING_SECONDS

GRACE_SECONDS: Final = 2
BACKLOG: Final = 2048
# Live pages send a few words; trainers and fleets use HTTP.
MAX_SOCKET_MESSAGE_BYTES: Final = 64 * 1024


def serve(listener: socket.socket, *, workers: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        "config.served:application",
        workers=workers,
        access_log=False,
        log_level="warning",
        lifespan="off",
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PATIENCE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http="config.http_protocol:BoundedHttp",
        ws="config.shared_frames:SharedFrames",
        server_header=False,
        # Without a proxy in front, a forwarded address is whatever the client claims.
        proxy_headers=False,
    )
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


def listener_at(place: str) -> socket.socket:
    """Return a socket: the passed file of that number, or a new one at ``host:port``."""
    if place.isdigit():
        return socket.socket(fileno=int(place))
    host, _, port = place.rpartition(":")
    listener = socket.create_server((host, int(port)), backlog=BACKLOG)
    listener.set_inheritable(True)
    return listener


if __name__ == "__main__":
    serve(listener_at(sys.argv[1]), workers=int(sys.argv[2]))
