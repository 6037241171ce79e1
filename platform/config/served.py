"""Entry point of the web server: the application, with heartbeats of the process."""

import asyncio
import multiprocessing
from functools import partial
from typing import Any

from config.asgi import application

from config import heartbeats, server_watch  # isort: skip  Django's applications load with the line above
from rollouts.fleet.process.child_environment import die_with_parent

LOOP_SECONDS = 10.0


def confirm_loop(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Return no details; raise if the event loop is stuck, so that no heartbeat is sent.

    Raises:
        TimeoutError: If the loop runs nothing for `LOOP_SECONDS`.
    """
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(LOOP_SECONDS)
    return {}


# One of several web processes would keep the port of a killed main process, and its heartbeats.
if (main_process := multiprocessing.parent_process()) and main_process.pid:
    die_with_parent(main_process.pid)
# uvicorn imports this module on its event loop.
heartbeats.start("web", read_details=partial(confirm_loop, asyncio.get_running_loop()))
server_watch.start()

__all__ = ["application"]
