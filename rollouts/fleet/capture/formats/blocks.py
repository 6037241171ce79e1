"""Blocks of an answer: reasoning, text and tool calls, in the order of the stream."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rollouts.fleet.capture.refusals import Refusal
from rollouts.fleet.capture.upstream import Function, Message, ToolCall


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
