"""Tool servers that an administrator offers to lessons.

A lesson names a server and never a command. Workers start servers on their own machine, with the
Model Context Protocol over standard input and output.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

SETTING: Final = "ROLLDECK_TOOL_SERVERS"


class InvalidToolServers(ValueError):
    """The setting is not a valid JSON object of server descriptions."""


class ToolServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Command of a server."""

    command: Annotated[str, Meta(min_length=1)]
    args: list[str] = []
    env: dict[str, str] = {}
    """Variables of the server, besides PATH, HOME and a few others."""


def parse(text: str) -> dict[str, ToolServerSettings]:
    """Parse the setting and return the servers by name.

    Args:
        text: ``{"name": {"command": …, "args": […]}}``; empty for none.

    Raises:
        InvalidToolServers: If the text has another form.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, ToolServerSettings])
    except msgspec.DecodeError as error:
        raise InvalidToolServers(f"{SETTING}: {error}") from error
