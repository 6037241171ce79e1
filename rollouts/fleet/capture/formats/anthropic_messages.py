"""Anthropic's Messages API, whole and streamed."""

import secrets
from typing import Any, ClassVar, Final

import msgspec

from rollouts.fleet.capture.formats.base import Event, WireStream, sse
from rollouts.fleet.capture.formats.blocks import Block, BlockEvent, Blocks, blocks_of
from rollouts.fleet.capture.formats.messages_request import as_chat, read_request
from rollouts.fleet.capture.reading import Generated, Kind
from rollouts.fleet.capture.refusals import Refusal
from rollouts.fleet.capture.upstream import Completion, Json

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


class AnthropicMessages:
    """A message; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "messages"
    path: ClassVar[str] = "chat/completions"

    def __init__(self, body: Json) -> None:
        """Translate a request.

        Raises:
            Refusal: If it is invalid, or needs something that capture does not support.
        """
        request = read_request(body)
        chat = as_chat(request, body)
        self.model, self.is_streamed = request.model, bool(request.stream)
        self.messages = chat["messages"]
        self.body = chat | {"return_token_ids": True, "logprobs": True}

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        """Return the message."""
        blocks = blocks_of(generated.message)
        made = _head(self.model) | {"content": [_whole(block) for block in blocks]}
        return msgspec.json.encode(made | _end(generated) | {"usage": _usage(generated)})

    def stream(self) -> WireStream:
        """Return the translation of the streamed response."""
        return _MessagesStream(self.model)

    @staticmethod
    def error(refusal: Refusal) -> Json:
        """Return an error in Anthropic's format."""
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
