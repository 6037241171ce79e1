"""TCP proxy that injects faults of the network between clients and a platform."""

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Literal, Self

from rolldeck.closing import Closing

NetworkFault = Literal[
    "none", "refuse", "reset", "silence", "half_open", "delay", "cut_request", "cut_answer"
]
"""
`refuse` closes new connections, `reset` aborts all, `silence` forwards nothing, `half_open` only
requests, `delay` adds latency, `cut_request` and `cut_answer` abort within a share of the messages.
"""
CHUNK: Final = 16_384
DELAY_SECONDS: Final = 1.5
SILENT_SECONDS: Final = 3600.0
"""Connections that were silent are aborted when the fault ends."""
CUT_SHARE: Final = 0.3


class Proxy(Closing):
    """A proxy on a free port of the loopback interface, run by a thread."""

    def __init__(self, host: str, port: int, *, seed: int = 0) -> None:
        """Listen, and forward to a server.

        Args:
            host: Host of the server.
            port: Port of the server.
            seed: Seed of the choice of messages to cut.
        """
        self._target = (host, port)
        self._random = random.Random(seed)  # noqa: S311 a seeded workload
        self._fault: NetworkFault = "none"
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def set_fault(self, fault: NetworkFault) -> None:
        """Inject a fault from now on, or none."""
        self._fault = fault
        if fault in {"reset", "none"}:
            # A connection that was silent would stay so.
            self._call(self._abort_all())

    def close(self) -> None:
        """End the connections and the thread."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _abort_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _stop(self) -> None:
        self._server.close()
        await self._abort_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # `asyncio.start_server` of Python 3.11 prints a traceback for a cancelled connection.
        with suppress(asyncio.CancelledError):
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._fault in {"refuse", "reset"}:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, server_writer)
        self._writers.update(pair)
        requests = asyncio.ensure_future(self._forward(reader, server_writer, "request"))
        answers = asyncio.ensure_future(self._forward(server_reader, writer, "answer"))
        try:
            await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (requests, answers):
                task.cancel()
            await asyncio.gather(requests, answers, return_exceptions=True)
            for each in pair:
                self._writers.discard(each)
                each.transport.abort()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Literal["request", "answer"],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                fault = self._fault
                if fault == "delay":
                    await asyncio.sleep(DELAY_SECONDS)
                if fault == "silence" or (fault == "half_open" and direction == "answer"):
                    await asyncio.sleep(SILENT_SECONDS)
                    return
                if fault == f"cut_{direction}" and self._random.random() < CUT_SHARE:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    return
                writer.write(data)
                await writer.drain()
