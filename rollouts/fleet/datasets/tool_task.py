"""Task whose problems are the rows of a data set, with tools of a server."""

import json
import re
from typing import Any, Final

import msgspec

from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.tools.server import Tool, ToolFailed, ToolServer
from rollouts.tasks.rules.dataset_config import DatasetConfig, ToolsConfig
from rollouts.tasks.rules.task import EpisodeFailed, Example, Reply, Turn

CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
"""A call; a stop string may have cut off its end."""
MOST_RESULT: Final = 100_000
"""Characters of a tool's result; the rest is cut off."""
INSTRUCTIONS: Final = """# Tools

You may call functions. Their signatures are within <tools></tools> tags:
<tools>
{}
</tools>

For a call, write a JSON object with the name and the arguments within <tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <arguments>}
</tool_call>"""
"""System message with the tools; the form is that of Hermes and Qwen models."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call as the policy writes it."""

    name: str
    arguments: dict[str, Any] = {}


class ToolTask(DatasetTask):
    """Conversations in which the policy calls tools before it answers.

    A turn without a call is the answer. Errors of a tool are its result.
    """

    replies_at_a_time = 16

    def __init__(
        self, name: str, config: DatasetConfig, tools: ToolsConfig, server: ToolServer
    ) -> None:
        """Read the data set; see :class:`DatasetTask`.

        Args:
            name: Path below the administrator's folder.
            config: Columns and splits.
            tools: Limits of the calls.
            server: A running server.
        """
        super().__init__(name, config)
        self.most_turns = tools.calls + 1
        self._tools, self._server = tools, server
        if config.chat:
            described = INSTRUCTIONS.replace("{}", _described(server.tools), 1)
            self.system = f"{config.system}\n\n{described}".lstrip()

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Call the tools named in the last turn, or end the conversation.

        Raises:
            EpisodeFailed: ``tool_failed`` if the server ends or does not answer in time.
        """
        calls = CALL.findall(turns[-1].text)
        if not calls or len(turns) >= self.most_turns or turns[-1].is_truncated:
            return super().reply(example, turns)
        results = [f"<tool_response>\n{self._result(call)}\n</tool_response>" for call in calls]
        return Reply("\n".join(results), is_over=False, reward=0.0)

    def _result(self, text: str) -> str:
        try:
            call = msgspec.json.decode(text.strip(), type=ToolCall)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            return f"error: not a call: {error}"
        try:
            result, is_error = self._server.call(
                call.name, call.arguments, seconds=self._tools.seconds
            )
        except ToolFailed as error:
            raise EpisodeFailed("tool_failed", str(error)) from error
        return (f"error: {result}" if is_error else result)[:MOST_RESULT]


def _described(tools: list[Tool]) -> str:
    """Return a line of JSON per tool."""
    return "\n".join(
        json.dumps(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            },
            ensure_ascii=False,
        )
        for tool in tools
    )
