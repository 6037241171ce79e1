"""Client of a tool server: the Model Context Protocol over standard input and output."""

import asyncio
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from runs.config.rules.servers import TOOL_SERVERS, InvalidToolServers, parse_tool_servers

EXTRA: Final = "pip install 'rolldeck-server[prompts]'"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 1.0
MOST_FAILURES: Final = 3
"""Calls in a row that may fail; further calls then fail at once for `PAUSE_SECONDS`."""
PAUSE_SECONDS: Final = 5.0


class ToolsUnusable(Exception):
    """The tools of a lesson cannot be used on this machine; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ToolFailed(Exception):
    """A server did not answer a call: it ended, or exceeded the time limit."""


class Tool(Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolServer:
    """A server process of one lesson of a worker; thread-safe.

    A server that ends or hangs is replaced at the next call.
    """

    def __init__(self, name: str) -> None:
        """Start the server called `name` in ``ROLLDECK_TOOL_SERVERS`` and read its tools.

        Raises:
            ToolsUnusable: If the server is not configured here, does not start, or the package
                `mcp` is missing.
        """
        self.name = name
        try:
            known = parse_tool_servers(os.environ.get(TOOL_SERVERS, ""))
        except InvalidToolServers as error:
            raise ToolsUnusable("environment_failed", str(error)) from error
        if name not in known:
            raise ToolsUnusable(
                "environment_unknown",
                f"tools.server: {name!r} is not in this machine's {TOOL_SERVERS}; "
                f"known: {', '.join(sorted(known)) or 'none'}",
            )
        self._settings = known[name]
        try:
            from mcp import Client
        except ImportError as error:  # missing, or a release before 2
            raise ToolsUnusable("dependency_missing", f"tools need mcp 2: {EXTRA}") from error
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._stopping: asyncio.Event | None = None
        self._ended: Future[None] | None = None
        self._failures, self._failed_at = 0, 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            self.tools = self._started()
        except ToolFailed as error:
            self.close()
            raise ToolsUnusable("environment_failed", str(error)) from error

    def call(self, tool: str, arguments: Mapping[str, Any], *, seconds: float) -> tuple[str, bool]:
        """Return the text of a tool's result, and whether it is an error of the tool.

        Raises:
            ToolFailed: If the server ends or does not answer in time.
        """
        # Other lessons must not wait for a server that has failed several times.
        is_recent = time.monotonic() - self._failed_at < PAUSE_SECONDS
        if self._failures >= MOST_FAILURES and is_recent:
            raise ToolFailed(
                f"tool server {self.name} failed in {self._failures} calls in a row; "
                f"no calls for {PAUSE_SECONDS:g} s"
            )
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        with self._lock:
            if self._client is None:
                self._started()
            client = self._client
        if client is None:
            raise ToolFailed(f"tool server {self.name} is closed")
        call = asyncio.run_coroutine_threadsafe(client.call_tool(tool, dict(arguments)), self._loop)
        try:
            result = call.result(seconds)
        except OutOfTime:
            call.cancel()
            self._discard(client)
            raise ToolFailed(
                f"tool {tool} of server {self.name} did not return within {seconds:g} s"
            ) from None
        except Exception as error:
            # A living server refuses a call such as that of an unknown tool.
            if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
                return str(error), True
            self._discard(client)
            reason = f"{type(error).__name__}: {error}"
            raise ToolFailed(f"tool server {self.name} ended: {reason}") from error
        self._failures = 0
        texts = [part.text for part in result.content if part.type == "text"]
        return "\n".join(texts), bool(result.is_error)

    def close(self) -> None:
        with self._lock:
            self._end()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _started(self) -> list[Tool]:
        """Start a process; return its tools."""
        ready: Future[list[Tool]] = Future()
        self._ended = asyncio.run_coroutine_threadsafe(self._run(ready), self._loop)
        try:
            return ready.result(START_SECONDS)
        except OutOfTime:
            self._end()
            problem = f"did not start within {START_SECONDS:g} s"
        except Exception as error:  # noqa: BLE001 servers may fail in any way
            first: BaseException = error
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            problem = f"did not start: {type(first).__name__}: {first}"
        raise ToolFailed(f"tool server {self.name} {problem}")

    async def _run(self, ready: "Future[list[Tool]]") -> None:
        """Keep a client connected until it is stopped; `ready` gets its tools or its error."""
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        one = self._settings
        parameters = StdioServerParameters(command=one.command, args=one.args, env=one.env or None)
        self._stopping = stopping = asyncio.Event()
        try:
            async with Client(stdio_client(parameters)) as client:
                listed = (await client.list_tools()).tools
                self._client = client
                ready.set_result(
                    [Tool(tool.name, tool.description or "", tool.input_schema) for tool in listed]
                )
                await stopping.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    def _discard(self, client: Any) -> None:
        self._failures += 1
        self._failed_at = time.monotonic()
        with self._lock:
            if self._client is client:
                self._end()

    def _end(self) -> None:
        self._client = None
        ended, self._ended = self._ended, None
        if ended is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        with suppress(Exception):
            ended.result(STOP_SECONDS)
