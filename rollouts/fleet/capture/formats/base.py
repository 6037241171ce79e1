"""Interface of an API that agents use, and the blocks of its answers.

It translates requests, responses, streams and errors. Blocks are reasoning, text and tool calls, in
the order of the stream.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rollouts.fleet.capture.upstream import (
    Completion,
    Function,
    Generated,
    Json,
    Kind,
    Message,
    Refusal,
    ToolCall,
)

A = TypeVar("A", bound=Struct)

PASSED_ON: Final = (
    *("seed", "top_k", "min_p", "min_tokens", "ignore_eos", "stop_token_ids"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "chat_template_kwargs"),
)
"""Fields of inference servers that a translated request may contain."""


@dataclass(slots=True, kw_only=True)
class Block:
    """Part of an answer of one kind."""

    kind: Literal["reasoning", "text", "tool"]
    place: int
    """Index in the answer, from 0."""
    identity: str = field(default_factory=lambda: secrets.token_hex(12))
    call_id: str = ""
    name: str = ""
    """Function of a tool call."""
    tool: int = -1
    """Index of a tool call among the tool calls."""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Text so far; of a tool call, its arguments in JSON."""
        return "".join(self.parts)


class BlockEvent(NamedTuple):
    """Change of a block."""

    action: Literal["open", "delta", "close"]
    block: Block
    text: str = ""
    """Text that a delta adds."""


class Blocks:
    """Split of an answer into blocks; at most the last one is open."""

    def __init__(self) -> None:
        self.all: list[Block] = []
        self._open: Block | None = None

    def add(self, message: Message | None) -> Iterator[BlockEvent]:
        """Yield the changes by a message, or by a part of it.

        Raises:
            Refusal: If a tool call continues after another block began.
        """
        if message is None:
            return
        if reasoning := message.reasoning or message.reasoning_content:
            yield from self._extend("reasoning", reasoning)
        if text := (message.content or "") + (message.refusal or ""):
            yield from self._extend("text", text)
        for place, call in enumerate(message.tool_calls or []):
            yield from self._extend_tool(place if call.index is None else call.index, call)

    def close(self) -> Iterator[BlockEvent]:
        """Yield the end of the open block, if there is one."""
        if self._open is not None:
            block, self._open = self._open, None
            yield BlockEvent("close", block)

    def _extend(self, kind: Literal["reasoning", "text"], text: str) -> Iterator[BlockEvent]:
        if self._open is None or self._open.kind != kind:
            yield from self._begin(Block(kind=kind, place=len(self.all)))
        yield from self._delta(text)

    def _extend_tool(self, index: int, call: ToolCall) -> Iterator[BlockEvent]:
        function = call.function or Function()
        if self._open is None or self._open.tool != index:
            if any(block.tool == index for block in self.all):
                raise Refusal(
                    f"the inference server continued tool call {index} after it ended", status=502
                )
            call_id = call.id or f"call_{secrets.token_hex(12)}"
            place, name = len(self.all), function.name or ""
            begun = Block(kind="tool", place=place, call_id=call_id, name=name, tool=index)
            yield from self._begin(begun)
        if function.arguments:
            yield from self._delta(function.arguments)

    def _begin(self, block: Block) -> Iterator[BlockEvent]:
        yield from self.close()
        self.all.append(block)
        self._open = block
        yield BlockEvent("open", block)

    def _delta(self, text: str) -> Iterator[BlockEvent]:
        assert self._open is not None  # noqa: S101 every caller begins a block first
        self._open.parts.append(text)
        yield BlockEvent("delta", self._open, text)


def blocks_of(message: Message) -> list[Block]:
    """Return the blocks of a complete message."""
    blocks = Blocks()
    for _ in blocks.add(message):
        pass
    return blocks.all


class Event(NamedTuple):
    """Part of a stream for the agent."""

    data: bytes
    completes: bool = False
    """Whether the agent may act on it: it ends an answer or a tool call."""


class WireStream(Protocol):
    """Translation of one streamed response."""

    def add(self, chunk: Completion, raw: str) -> list[Event]:
        """Return the events for a chunk, which is also available as sent.

        Raises:
            Refusal: If the chunk cannot be translated.
        """

    def finish(self, generated: Generated) -> list[bytes]:
        """Return the events that end the stream."""

    def fail(self, refusal: Refusal) -> list[bytes]:
        """Return the events that end the stream with an error."""


class WireFormat(Protocol):
    """Translation of one request, created from its body; raises Refusal if the body is invalid."""

    kind: ClassVar[Kind]
    path: ClassVar[str]
    """Path of the inference server, below its base URL."""
    body: Json
    """Request to the inference server."""
    messages: list[Json]
    """Messages of a chat, as the inference server receives them."""
    model: str
    is_streamed: bool

    def __init__(self, body: Json) -> None:
        """Translate a request.

        Raises:
            Refusal: If the body is invalid.
        """

    def response(self, generated: Generated, content: bytes) -> bytes:
        """Return the response to the agent.

        Args:
            generated: The answer.
            content: Response of the inference server, as sent.
        """

    def stream(self) -> WireStream:
        """Return the translation of the streamed response."""

    @staticmethod
    def error(refusal: Refusal) -> Json:
        """Return an error in the format of this API."""


def openai_error(refusal: Refusal) -> Json:
    """Return an error in OpenAI's format."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    code = refusal.code or refusal.status
    error = {"message": str(refusal), "type": kind, "param": refusal.param, "code": code}
    return {"error": error}


def decoded(body: Json, kind: type[A]) -> A:
    """Return the typed body of a request.

    Raises:
        Refusal: If it is invalid; `param` names the field.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        param = path.strip("`").removeprefix("$.") or None
        text = f"{param}: {message}" if param else message
        raise Refusal(text, status=400, param=param) from error


def refuse_fields(body: Json, names: tuple[str, ...]) -> None:
    """Refuse fields that have an effect which capture cannot provide.

    Raises:
        Refusal: If one of them has a value.
    """
    for name in names:
        if body.get(name):
            raise Refusal(f"{name}: not supported by capture", status=400, param=name)


def passed_on(body: Json) -> Json:
    """Return the fields of a request that the inference server receives unchanged."""
    return {name: body[name] for name in PASSED_ON if body.get(name) is not None}


def sse(event: str, content: Any) -> bytes:
    """Return a server-sent event with a name."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"
