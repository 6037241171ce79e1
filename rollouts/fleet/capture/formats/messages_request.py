"""Requests of Anthropic's Messages API, as chat completions."""

import json
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from rollouts.fleet.capture.formats.base import decoded, passed_on, refuse_fields
from rollouts.fleet.capture.upstream import Json

UNSUPPORTED: Final = ("mcp_servers", "container")


class Text(Struct, tag_field="type", tag="text"):
    """Text of a message."""

    text: str


class ToolUse(Struct, tag_field="type", tag="tool_use"):
    """Earlier call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResult(Struct, tag_field="type", tag="tool_result"):
    """Result of a tool call."""

    tool_use_id: str
    content: str | list[Text] | None = None


class Thinking(Struct, tag_field="type", tag="thinking"):
    """Earlier reasoning."""

    thinking: str


Content = Text | ToolUse | ToolResult | Thinking


class Turn(Struct):
    """Message of a conversation."""

    role: Literal["user", "assistant"]
    content: str | list[Content]


class Tool(Struct):
    """Tool that the model may call; tools of Anthropic's servers are not supported."""

    name: Annotated[str, Meta(min_length=1)]
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None


class ToolChoice(Struct):
    """Whether and which tool the model calls."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool = False


class MessagesRequest(Struct):
    """Body of ``POST /v1/messages``; other fields have no effect on the answer."""

    messages: Annotated[list[Turn], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    model: str = ""
    system: str | list[Text] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None


def read_request(body: Json) -> MessagesRequest:
    """Return the typed body of a request.

    Raises:
        Refusal: If it is invalid, or needs something that capture does not support.
    """
    refuse_fields(body, UNSUPPORTED)
    return decoded(body, MessagesRequest)


def as_chat(request: MessagesRequest, body: Json) -> Json:
    """Return a request as a chat completion, without the fields for capture."""
    made: Json = {
        "model": request.model,
        "messages": messages_of(request),
        "max_completion_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.stop_sequences or None,
        "stream": request.stream,
    }
    if request.tools:
        made["tools"] = [_tool(tool) for tool in request.tools]
        made["tool_choice"] = _tool_choice(request.tool_choice)
        if request.tool_choice is not None and request.tool_choice.disable_parallel_tool_use:
            made["parallel_tool_calls"] = False
    return {name: value for name, value in made.items() if value is not None} | passed_on(body)


def messages_of(request: MessagesRequest) -> list[Json]:
    """Return the messages of the chat; each tool result is a message of its own."""
    messages: list[Json] = []
    if system := _text(request.system):
        messages.append({"role": "system", "content": system})
    for turn in request.messages:
        if isinstance(turn.content, str):
            messages.append({"role": turn.role, "content": turn.content})
        elif turn.role == "assistant":
            messages.append(_answer(turn.content))
        else:
            messages += _inputs(turn.content)
    return messages


def _inputs(content: list[Content]) -> list[Json]:
    results = [
        {"role": "tool", "tool_call_id": part.tool_use_id, "content": _text(part.content)}
        for part in content
        if isinstance(part, ToolResult)
    ]
    texts = [part for part in content if isinstance(part, Text)]
    return [*results, {"role": "user", "content": _text(texts)}] if texts else results


def _answer(content: list[Content]) -> Json:
    texts = [part.text for part in content if isinstance(part, Text)]
    message: Json = {"role": "assistant", "content": "".join(texts) or None}
    if thinking := "".join(part.thinking for part in content if isinstance(part, Thinking)):
        message["reasoning"] = thinking
    if calls := [_tool_call(part) for part in content if isinstance(part, ToolUse)]:
        message["tool_calls"] = calls
    return message


def _tool_call(part: ToolUse) -> Json:
    # With the spaces of Python's json, which chat templates and most models write.
    arguments = json.dumps(part.input, ensure_ascii=False)
    function = {"name": part.name, "arguments": arguments}
    return {"id": part.id, "type": "function", "function": function}


def _text(content: str | list[Text] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.text for part in content)
    return content or ""


def _tool(tool: Tool) -> Json:
    function: Json = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice | None) -> object:
    if choice is None:
        return "auto"
    if choice.type == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return "required" if choice.type == "any" else choice.type
