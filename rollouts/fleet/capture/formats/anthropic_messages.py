"""Anthropic's Messages API, whole and streamed."""

import json
import secrets
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from rollouts.fleet.capture.formats.base import (
    Block,
    BlockEvent,
    Blocks,
    Event,
    WireStream,
    blocks_of,
    decoded,
    passed_on,
    refuse_fields,
    sse,
)
from rollouts.fleet.capture.upstream import Completion, Generated, Json, Kind, Refusal

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Types of errors by status; others are `invalid_request_error` or `api_error`."""
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


class AnthropicMessages:
    """A message; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "messages"
    path: ClassVar[str] = "chat/completions"

    def __init__(self, body: Json) -> None:
        request = read_request(body)
        chat = as_chat(request, body)
        self.model, self.is_streamed = request.model, bool(request.stream)
        self.messages = chat["messages"]
        self.body = chat | {"return_token_ids": True, "logprobs": True}

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        blocks = blocks_of(generated.message)
        made = _head(self.model) | {"content": [_whole(block) for block in blocks]}
        return msgspec.json.encode(made | _end(generated) | {"usage": _usage(generated)})

    def stream(self) -> WireStream:
        return _MessagesStream(self.model)

    @staticmethod
    def error(refusal: Refusal) -> Json:
        kind = "invalid_request_error" if refusal.status < 500 else "api_error"
        error = {"type": ERROR_TYPES.get(refusal.status, kind), "message": str(refusal)}
        return {"type": "error", "error": error}


def counted_chat(body: Json) -> Json:
    """Return the chat completion of a request to count the tokens of a message.

    Raises:
        Refusal: If it is invalid, or needs something that capture does not support.
    """
    return AnthropicMessages({"max_tokens": 1} | body).body


class _MessagesStream:
    """Events of a streamed message."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks = Blocks()
        self._is_begun = False

    def add(self, chunk: Completion, raw: str) -> list[Event]:  # noqa: ARG002 interface
        prompt = chunk.prompt_token_ids or []
        for choice in chunk.choices[:1]:
            prompt = prompt or choice.prompt_token_ids or []
        events = self._begin(len(prompt))
        for choice in chunk.choices[:1]:
            events += [_event(change) for change in self._blocks.add(choice.delta)]
        return events

    def finish(self, generated: Generated) -> list[bytes]:
        events = self._begin(generated.prompt_tokens)
        events += [_event(change) for change in self._blocks.close()]
        usage = _usage(generated)
        end = sse(
            "message_delta", {"type": "message_delta", "delta": _end(generated), "usage": usage}
        )
        return [
            *(event.data for event in events),
            end,
            sse("message_stop", {"type": "message_stop"}),
        ]

    def fail(self, refusal: Refusal) -> list[bytes]:
        return [sse("error", AnthropicMessages.error(refusal))]

    def _begin(self, prompt_tokens: int) -> list[Event]:
        if self._is_begun:
            return []
        self._is_begun = True
        usage = {"input_tokens": prompt_tokens, "output_tokens": 0}
        nothing: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        message = _head(self._model) | nothing
        return [Event(sse("message_start", {"type": "message_start", "message": message}))]


def _event(change: BlockEvent) -> Event:
    block = change.block
    if change.action == "open":
        return Event(_block_event("content_block_start", block, content_block=_empty(block)))
    if change.action == "delta":
        kind, name = _DELTAS[block.kind]
        delta = {"type": kind, name: change.text}
        return Event(_block_event("content_block_delta", block, delta=delta))
    return Event(_block_event("content_block_stop", block), block.kind == "tool")


def _block_event(name: str, block: Block, **fields: Any) -> bytes:
    return sse(name, {"type": name, "index": block.place} | fields)


_DELTAS: Final = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool": ("input_json_delta", "partial_json"),
}


def _head(model: str) -> Json:
    identity = f"msg_{secrets.token_hex(12)}"
    return {"id": identity, "type": "message", "role": "assistant", "model": model}


def _empty(block: Block) -> Json:
    if block.kind == "tool":
        return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
    if block.kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _whole(block: Block) -> Json:
    if block.kind == "tool":
        return _empty(block) | {"input": _input(block.text)}
    return _empty(block) | {_DELTAS[block.kind][1]: block.text}


def _input(arguments: str) -> Json:
    """Return the arguments of a tool call; a policy may write invalid JSON, which is passed on."""
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"invalid_json": arguments}


def _end(generated: Generated) -> Json:
    reasons = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
    reason = reasons.get(generated.finish, "end_turn")
    if generated.message.tool_calls and reason == "end_turn":
        reason = "tool_use"
    stop = generated.stop_text if reason == "end_turn" else None
    return {"stop_reason": "stop_sequence" if stop else reason, "stop_sequence": stop}


def _usage(generated: Generated) -> Json:
    return {"input_tokens": generated.prompt_tokens, "output_tokens": generated.tokens}
