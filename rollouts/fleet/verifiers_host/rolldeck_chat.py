"""Harness plugin of verifiers: a chat loop with tools, inside the host process.

The package's own chat programs are scripts for which ``uv`` builds an environment from a package
index. This loop needs neither, and no process per rollout. Run by the host, never by the platform.
"""

import json
from contextlib import AsyncExitStack
from typing import Any

from openai import APIStatusError, AsyncOpenAI
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harness import Harness
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
from verifiers.v1.runtimes import ProgramResult, Runtime
from verifiers.v1.task import TaskData
from verifiers.v1.trace import Trace

__all__ = ["RolldeckChatHarness"]

Messages = list[dict[str, Any]]


class RolldeckChatHarnessConfig(HarnessConfig):
    """Configuration of the harness: that of every harness."""


class RolldeckChatHarness(Harness[RolldeckChatHarnessConfig]):
    """Chat loop that ends with the first answer without a tool call."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: ModelContext,
        trace: Trace,  # noqa: ARG002
        runtime: Runtime,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: TaskData,
    ) -> ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages: Messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        servers = {
            name: {"url": url, "timeout": self.config.tool_timeout}
            for name, url in mcp_urls.items()
        }
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None)
            )
            tools, dispatch, connections = await connect_mcp({"mcpServers": servers}, stack)

            async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
                return await call_mcp(connections, dispatch, name, arguments)

            try:
                await _converse(client, ctx.model, messages, tools, dispatch, call_tool)
            except APIStatusError as refusal:
                # A limit or stop condition refuses the next turn; the trace has the reason.
                return ProgramResult(exit_code=1, stdout="", stderr=str(refusal))
        return ProgramResult(exit_code=0, stdout="", stderr="")


async def _converse(
    client: AsyncOpenAI,
    model: str,
    messages: Any,
    tools: list[dict[str, Any]],
    names: Any,
    call_tool: Any,
) -> None:
    offered: dict[str, Any] = {"tools": tools} if tools else {}
    while True:
        completion = await client.chat.completions.create(model=model, messages=messages, **offered)
        message: Any = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            content = await _result(call.function.name, call.function.arguments, names, call_tool)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


async def _result(name: str, written: str, names: Any, call_tool: Any) -> Any:
    """Return the content of a tool's result, or of the error that the policy can correct."""
    if name not in names:
        return f"error: unknown tool {name!r}"
    try:
        arguments = json.loads(written or "{}")
    except json.JSONDecodeError as error:
        return f"error: invalid JSON in the arguments: {error}"
    if not isinstance(arguments, dict):
        return f"error: the arguments must be an object, not {type(arguments).__name__}"
    return await call_tool(name, arguments)
