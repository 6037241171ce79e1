"""A tool server of the `mcp` package over standard input and output."""

import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("calculator", log_level="ERROR")
MODE = sys.argv[1] if len(sys.argv) > 1 else ""


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    if MODE == "ends":
        os._exit(3)
    if MODE == "hangs":
        time.sleep(600)
    return a + b


@server.tool()
def divide(a: int, b: int) -> float:
    """Divide two integers."""
    if b == 0:
        raise ToolError("division by zero")
    return a / b


@server.tool()
def end() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def hang() -> str:
    """Answer after ten minutes."""
    time.sleep(600)
    return ""


if __name__ == "__main__":
    server.run()
