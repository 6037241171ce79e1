"""Anthropic's Messages API, whole and streamed."""

import json
import secrets
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from rollouts.fleet.capture.formats.base import (
    Block,
    BlockEvent,
    Event,
    TranslatedCall,
    TranslatedStream,
    WireStream,
    blocks_of,
    chat_tool,
    chosen_tool,
    decoded,
    sse,
)
from rollouts.fleet.capture.upstream import Generated, Json, Kind, Refusal, chat_tool_call

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
_DELTAS: Final = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool": ("input_json_delta", "partial_json"),
}


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


def messages_of(request: MessagesRequest) -> list[Json]:
    """Return the messages of the chat; each tool result is a message of its own."""
    messages: list[Json] = []
    if system := _text(request.system):
        messages.append({"role": "system", "content": system})
    for turn in request.messages:
        if isinstance(turn.content, str):
            messages.append({"role": turn.role, "content": turn.content})
            continue
        texts = [part for part in turn.content if isinstance(part, Text)]
        if turn.role == "user":
            messages += [
                {"role": "tool", "tool_call_id": part.tool_use_id, "content": _text(part.content)}
                for part in turn.content
                if isinstance(part, ToolResult)
            ]
            if texts:
                messages.append({"role": "user", "content": _text(texts)})
            continue
        answer: Json = {
            "role": "assistant",
            "content": "".join(part.text for part in texts) or None,
        }
        thoughts = [part.thinking for part in turn.content if isinstance(part, Thinking)]
        if thinking := "".join(thoughts):
            answer["reasoning"] = thinking
        # With the spaces of Python's json, which chat templates and most models write.
        if calls := [
            chat_tool_call(part.id, part.name, json.dumps(part.input, ensure_ascii=False))
            for part in turn.content
            if isinstance(part, ToolUse)
        ]:
            answer["tool_calls"] = calls
        messages.append(answer)
    return messages


def _text(content: str | list[Text] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.text for part in content)
    return content or ""


class AnthropicMessages(TranslatedCall):
    """A message; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "messages"

    def __init__(self, body: Json) -> None:
        request = decoded(body, MessagesRequest, unsupported=("mcp_servers", "container"))
        chat: Json = {
            "messages": messages_of(request),
            "max_completion_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "stop": request.stop_sequences or None,
        }
        if request.tools:
            chat["tools"] = [
                chat_tool(
                    tool.name, tool.input_schema, description=tool.description, strict=tool.strict
                )
                for tool in request.tools
            ]
            choice = request.tool_choice or ToolChoice(type="auto")
            choices: Json = {"any": "required", "tool": chosen_tool(choice.name)}
            chat["tool_choice"] = choices.get(choice.type, choice.type)
            chat["parallel_tool_calls"] = False if choice.disable_parallel_tool_use else None
        super().__init__(model=request.model, is_streamed=request.stream, chat=chat, body=body)

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        blocks = []
        for block in blocks_of(generated.message):
            whole = _empty(block)
            if block.kind != "tool":
                whole[_DELTAS[block.kind][1]] = block.text
            else:
                # A policy may write arguments in invalid JSON, which are passed on.
                try:
                    whole["input"] = msgspec.json.decode(block.text or "{}", type=dict[str, Any])
                except (msgspec.DecodeError, UnicodeDecodeError):
                    whole["input"] = {"invalid_json": block.text}
            blocks.append(whole)
        made = _head(self.model) | {"content": blocks} | _end(generated)
        return msgspec.json.encode(made | {"usage": _usage(generated)})

    def stream(self) -> WireStream:
        return _MessagesStream(self.model)

    @staticmethod
    def error(refusal: Refusal) -> Json:
        kind = "invalid_request_error" if refusal.status < 500 else "api_error"
        error = {"type": ERROR_TYPES.get(refusal.status, kind), "message": str(refusal)}
        return {"type": "error", "error": error}


class _MessagesStream(TranslatedStream):
    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    def fail(self, refusal: Refusal) -> list[bytes]:
        return [sse("error", AnthropicMessages.error(refusal))]

    def first_events(self, prompt_tokens: int) -> list[bytes]:
        usage = {"input_tokens": prompt_tokens, "output_tokens": 0}
        nothing: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        message = _head(self._model) | nothing
        return [sse("message_start", {"type": "message_start", "message": message})]

    def events_of(self, change: BlockEvent) -> list[Event]:
        block = change.block
        fields: Json = {}
        if change.action == "open":
            name, fields = "content_block_start", {"content_block": _empty(block)}
        elif change.action == "delta":
            kind, field = _DELTAS[block.kind]
            name, fields = "content_block_delta", {"delta": {"type": kind, field: change.text}}
        else:
            name = "content_block_stop"
        completes = change.action == "close" and block.kind == "tool"
        return [Event(sse(name, {"type": name, "index": block.place} | fields), completes)]

    def last_events(self, generated: Generated) -> list[bytes]:
        end = {"type": "message_delta", "delta": _end(generated), "usage": _usage(generated)}
        return [sse("message_delta", end), sse("message_stop", {"type": "message_stop"})]


def _head(model: str) -> Json:
    identity = f"msg_{secrets.token_hex(12)}"
    return {"id": identity, "type": "message", "role": "assistant", "model": model}


def _empty(block: Block) -> Json:
    if block.kind == "tool":
        return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
    if block.kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _end(generated: Generated) -> Json:
    reasons = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
    reason = reasons.get(generated.finish, "end_turn")
    if generated.message.tool_calls and reason == "end_turn":
        reason = "tool_use"
    stop = generated.stop_text if reason == "end_turn" else None
    return {"stop_reason": "stop_sequence" if stop else reason, "stop_sequence": stop}


def _usage(generated: Generated) -> Json:
    return {"input_tokens": generated.prompt_tokens, "output_tokens": generated.tokens}
