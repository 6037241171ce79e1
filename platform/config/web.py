"""Serve the platform with all limits of the server itself.

``python -m config.web 0.0.0.0:8000 2`` serves on an address with two processes.
``python -m config.web 7 1`` serves on file descriptor 7, a socket bound by the supervisor: during
a restart of the web process, connections wait there instead of being refused.
``python -m config.web 7 1 spare`` imports the platform, and serves once its stdin names its log.
"""

import os
import socket
import sys
from importlib import import_module
from typing import Final

import django
import uvicorn
from django.conf import settings
from uvicorn.supervisors import Multiprocess

from config.connections import raise_open_files
from config.embedded.children import SPARE
from config.env import InvalidSetting
from rollouts.fleet.process import child_environment
from web.live.websocket_protocol import PING_SECONDS, PING_TIMEOUT_SECONDS

GRACE_SECONDS: Final = 2
BACKLOG: Final = 2048
# Live pages send short messages; trainers and fleets use HTTP.
MAX_SOCKET_MESSAGE_BYTES: Final = 64 * 1024


def serve(listener: socket.socket, *, workers: int, is_spare: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; exit at once if the folders are not those of the database.

    Args:
        listener: Bound socket.
        workers: Number of processes.
        is_spare: Whether to wait, with the platform imported, until stdin names the log.
    """
    child_environment.hide_this_process()
    raise_open_files()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
    try:
        django.setup(set_prefix=False)
    except InvalidSetting as error:
        sys.exit(f"rolldeck: {error}")
    if is_spare:
        import_module("config.asgi")
        _wait_for_work()
    from config.database_connections import check_or_exit
    from config.own_folders import claim_or_exit  # Django's applications load first

    check_or_exit(web_processes=workers)
    claim_or_exit()
    config = uvicorn.Config(
        "config.served:application",
        workers=workers,
        access_log=False,
        log_level="warning",
        log_config=None,  # the handlers of Django's settings
        lifespan="off",
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_TIMEOUT_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http="config.http_protocol:BoundedHttp",
        ws="web.live.websocket_protocol:BoundedWebSocket",
        server_header=False,
        # Without a proxy in front, a forwarded address is under the client's control.
        proxy_headers=bool(settings.ROLLDECK_TRUSTED_PROXIES),
        forwarded_allow_ips=settings.ROLLDECK_TRUSTED_PROXIES,
    )
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


def _wait_for_work() -> None:
    log = sys.stdin.readline().rstrip("\n")
    if not log:
        sys.exit(0)  # the supervisor has ended
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for target, source in ((1, output), (2, output), (0, os.open(os.devnull, os.O_RDONLY))):
        os.dup2(source, target)


def listener_at(place: str) -> socket.socket:
    """Return the socket of a file descriptor, or a new one at ``host:port``."""
    if place.isdigit():
        return socket.socket(fileno=int(place))
    host, _, port = place.rpartition(":")
    try:
        listener = socket.create_server((host, int(port)), backlog=BACKLOG)
    except OSError as error:
        sys.exit(
            f"rolldeck: cannot listen on {place}: {error.strerror}. Another program may use the "
            "port; name a free one"
        )
    listener.set_inheritable(True)
    return listener


if __name__ == "__main__":
    serve(listener_at(sys.argv[1]), workers=int(sys.argv[2]), is_spare=sys.argv[3:] == [SPARE])
