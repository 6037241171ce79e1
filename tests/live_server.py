"""Run the web server in a thread of the test, on the test's database."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tests.waiting import eventually

TICK_SECONDS = 0.01


class QuickServer(uvicorn.Server):
    """A server that ends at once when nothing remains to be done.

    uvicorn looks ten times a second whether it shall end, and then waits for at least 0.1 s.
    """

    async def main_loop(self) -> None:
        """Serve until the server shall end."""
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.sleep(TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections after their answers, and end the application."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(TICK_SECONDS)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()


@contextmanager
def serving() -> Iterator[str]:
    """Serve the application on a free port and yield its base URL."""
    from config.asgi import application, machines

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        http="config.http_protocol:BoundedHttp",
        log_level="warning",
        lifespan="off",
        ws="none",
    )
    server = QuickServer(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
    )
    thread.start()
    eventually(lambda: server.started, 60)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        machines.close_connections()
