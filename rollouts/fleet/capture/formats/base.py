"""Interface of an API that agents use, and what the translated APIs share.

It translates requests, responses, streams and errors. An API that the inference server does not
have is translated to chat completions. Blocks of an answer are reasoning, text and tool calls, in
the order of the stream.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rolldeck.structs import message_and_path
from rollouts.fleet.capture.upstream import (
    Completion,
    Function,
    Generated,
    Json,
    Kind,
    Message,
    Refusal,
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
            index, function = place if call.index is None else call.index, call.function
            function = function or Function()
            if self._open is None or self._open.tool != index:
                if any(block.tool == index for block in self.all):
                    raise Refusal(
                        f"the inference server continued tool call {index} after it ended",
                        status=502,
                    )
                call_id, name = call.id or f"call_{secrets.token_hex(12)}", function.name or ""
                yield from self._begin("tool", call_id=call_id, name=name, tool=index)
            if function.arguments:
                yield self._delta(function.arguments)

    def close(self) -> Iterator[BlockEvent]:
        """Yield the end of the open block, if there is one."""
        if self._open is not None:
            block, self._open = self._open, None
            yield BlockEvent("close", block)

    def _extend(self, kind: Literal["reasoning", "text"], text: str) -> Iterator[BlockEvent]:
        if self._open is None or self._open.kind != kind:
            yield from self._begin(kind)
        yield self._delta(text)

    def _begin(
        self, kind: Literal["reasoning", "text", "tool"], **fields: Any
    ) -> Iterator[BlockEvent]:
        yield from self.close()
        self._open = Block(kind=kind, place=len(self.all), **fields)
        self.all.append(self._open)
        yield BlockEvent("open", self._open)

    def _delta(self, text: str) -> BlockEvent:
        assert self._open is not None  # noqa: S101 every caller begins a block first
        self._open.parts.append(text)
        return BlockEvent("delta", self._open, text)


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


class TranslatedCall:
    """A call of an API that the inference server receives as a chat completion."""

    path: ClassVar[str] = "chat/completions"

    def __init__(self, *, model: str, is_streamed: bool | None, chat: Json, body: Json) -> None:
        """Set up the call.

        Args:
            model: Model that the agent named; empty for any.
            is_streamed: Whether the agent asked for a stream.
            chat: Chat completion of the request; fields that are None are left out.
            body: Request of the agent, whose fields in `PASSED_ON` are added.
        """
        self.model, self.is_streamed = model, bool(is_streamed)
        self.messages: list[Json] = chat["messages"]
        made = chat | {"model": model, "stream": is_streamed}
        made |= {name: body.get(name) for name in PASSED_ON}
        self.body: Json = {name: value for name, value in made.items() if value is not None}
        # The fields for capture.
        self.body |= {"return_token_ids": True, "logprobs": True}


class TranslatedStream(ABC):
    """Events of an API for a streamed chat completion: begin, changes of blocks, end."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._is_begun = False
        self._is_cut = False
        """Whether the answer ended at its limit of tokens; known at its end."""

    def add(self, chunk: Completion, raw: str) -> list[Event]:  # noqa: ARG002 interface
        prompt = chunk.prompt_token_ids or []
        for choice in chunk.choices[:1]:
            prompt = prompt or choice.prompt_token_ids or []
        events = [Event(data) for data in self._begin(len(prompt))]
        for choice in chunk.choices[:1]:
            for change in self._blocks.add(choice.delta):
                events += self.events_of(change)
        return events

    def finish(self, generated: Generated) -> list[bytes]:
        self._is_cut = generated.finish == "length"
        events = self._begin(generated.prompt_tokens)
        for change in self._blocks.close():
            events += [event.data for event in self.events_of(change)]
        return [*events, *self.last_events(generated)]

    def _begin(self, prompt_tokens: int) -> list[bytes]:
        is_first, self._is_begun = not self._is_begun, True
        return self.first_events(prompt_tokens) if is_first else []

    @abstractmethod
    def first_events(self, prompt_tokens: int) -> list[bytes]:
        """Return the events that begin the stream."""

    @abstractmethod
    def events_of(self, change: BlockEvent) -> list[Event]:
        """Return the events for the change of a block."""

    @abstractmethod
    def last_events(self, generated: Generated) -> list[bytes]:
        """Return the events that end the stream."""


def decoded(body: Json, kind: type[A], *, unsupported: tuple[str, ...]) -> A:
    """Return the typed body of a request.

    Args:
        body: The request.
        kind: Its type.
        unsupported: Fields that have an effect which capture cannot provide.

    Raises:
        Refusal: If it is invalid or has such a field; `param` names the field.
    """
    for name in unsupported:
        if body.get(name):
            raise Refusal(f"{name}: not supported by capture", status=400, param=name)
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        message, path = message_and_path(error)
        param = path.lstrip(".") or None
        text = f"{param}: {message}" if param else message
        raise Refusal(text, status=400, param=param) from error


def chat_tool(name: str, parameters: Json, *, description: str | None, strict: bool | None) -> Json:
    """Return a tool of a chat completion."""
    function: Json = {"name": name, "parameters": parameters}
    if description is not None:
        function["description"] = description
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def chosen_tool(name: str) -> Json:
    """Return the `tool_choice` of a chat completion that demands one tool."""
    return {"type": "function", "function": {"name": name}}


def sse(event: str, content: Any) -> bytes:
    """Return a server-sent event with a name."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"
