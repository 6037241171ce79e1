"""OpenAI's Responses API, whole and streamed."""

import secrets
import time
from typing import Any, ClassVar

import msgspec

from rollouts.fleet.capture.formats.base import Event, WireStream, openai_error, sse
from rollouts.fleet.capture.formats.blocks import Block, BlockEvent, Blocks, blocks_of
from rollouts.fleet.capture.formats.responses_request import as_chat, read_request
from rollouts.fleet.capture.reading import Generated, Kind
from rollouts.fleet.capture.refusals import Refusal
from rollouts.fleet.capture.upstream import Completion, Json


class OpenAiResponses:
    """A response; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "responses"
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
        self._head = _head(body)

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        """Return the response object."""
        return msgspec.json.encode(
            _finished(self._head, blocks_of(generated.message), generated),
        )

    def stream(self) -> WireStream:
        """Return the translation of the streamed response."""
        return _ResponsesStream(self._head)

    @staticmethod
    def error(refusal: Refusal) -> Json:
        """Return an error in OpenAI's format."""
        return openai_error(refusal)


class _ResponsesStream:
    """Events of a streamed response, numbered from 0."""

    def __init__(self, head: Json) -> None:
        self._head = head
        self._blocks = Blocks()
        self._number = -1
        self._is_begun = False

    def add(self, chunk: Completion, raw: str) -> list[Event]:  # noqa: ARG002 interface
        events = self._begin()
        for choice in chunk.choices[:1]:
            for change in self._blocks.add(choice.delta):
                events += self._events(change)
        return events

    def finish(self, generated: Generated) -> list[bytes]:
        events = self._begin()
        is_cut = generated.finish == "length"
        for change in self._blocks.close():
            events += self._events(change, is_cut=is_cut)
        end = "response.incomplete" if is_cut else "response.completed"
        response = _finished(self._head, self._blocks.all, generated)
        return [*(event.data for event in events), self._event(end, response=response)]

    def fail(self, refusal: Refusal) -> list[bytes]:
        error = {"code": "server_error", "message": str(refusal)}
        response = self._head | {"status": "failed", "error": error}
        begun = [event.data for event in self._begin()]
        return [*begun, self._event("response.failed", response=response)]

    def _begin(self) -> list[Event]:
        if self._is_begun:
            return []
        self._is_begun = True
        names = ("response.created", "response.in_progress")
        return [Event(self._event(name, response=self._head)) for name in names]

    def _event(self, name: str, /, **fields: Any) -> bytes:
        self._number += 1
        return sse(name, {"type": name, "sequence_number": self._number} | fields)

    def _events(self, change: BlockEvent, *, is_cut: bool = False) -> list[Event]:
        block = change.block
        if change.action == "open":
            return [Event(data) for data in self._opened(block)]
        if change.action == "delta":
            name, place = _DELTAS[block.kind], _place(block)
            return [Event(self._event(name, delta=change.text, **place))]
        return [Event(data, block.kind == "tool") for data in self._closed(block, is_cut=is_cut)]

    def _opened(self, block: Block) -> list[bytes]:
        item = _item(block, status="in_progress", is_empty=True)
        place = {"output_index": block.place}
        events = [self._event("response.output_item.added", item=item, **place)]
        if block.kind != "tool":
            part = _part(block, "")
            events.append(self._event("response.content_part.added", part=part, **_where(block)))
        return events

    def _closed(self, block: Block, *, is_cut: bool) -> list[bytes]:
        text, done = block.text, _DELTAS[block.kind].removesuffix("delta") + "done"
        if block.kind == "tool":
            events = [self._event(done, arguments=text, name=block.name, **_place(block))]
        else:
            events = [self._event(done, text=text, **_place(block))]
            part = _part(block, text)
            events.append(self._event("response.content_part.done", part=part, **_where(block)))
        item = _item(block, status="incomplete" if is_cut else "completed")
        events.append(self._event("response.output_item.done", item=item, output_index=block.place))
        return events


_DELTAS = {
    "text": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "tool": "response.function_call_arguments.delta",
}


def _head(body: Json) -> Json:
    """Return a response object without output; it repeats fields of the request."""
    return {
        "id": f"resp_{secrets.token_hex(24)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": body.get("model") or "",
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "store": False,
        "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "usage": None,
    }


def _finished(head: Json, blocks: list[Block], generated: Generated) -> Json:
    is_cut = generated.finish == "length"
    items = [_item(block, status="completed") for block in blocks]
    if is_cut and blocks:
        items[-1] = _item(blocks[-1], status="incomplete")
    return head | {
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": items,
        "usage": {
            "input_tokens": generated.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": generated.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": generated.prompt_tokens + generated.tokens,
        },
    }


def _item(block: Block, *, status: str, is_empty: bool = False) -> Json:
    text = "" if is_empty else block.text
    parts = [] if is_empty else [_part(block, text)]
    if block.kind == "tool":
        return {
            "type": "function_call",
            "id": _identity(block),
            "call_id": block.call_id,
            "name": block.name,
            "arguments": text,
            "status": status,
        }
    if block.kind == "reasoning":
        return {
            "type": "reasoning",
            "id": _identity(block),
            "summary": [],
            "content": parts,
            "status": status,
        }
    return {
        "type": "message",
        "id": _identity(block),
        "role": "assistant",
        "content": parts,
        "status": status,
    }


def _part(block: Block, text: str) -> Json:
    if block.kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _identity(block: Block) -> str:
    return {"text": "msg_", "reasoning": "rs_", "tool": "fc_"}[block.kind] + block.identity


def _where(block: Block) -> Json:
    return {"item_id": _identity(block), "output_index": block.place, "content_index": 0}


def _place(block: Block) -> Json:
    """Return the fields that locate a delta; of a tool call, without a content index."""
    if block.kind == "tool":
        return {"item_id": _identity(block), "output_index": block.place}
    return _where(block) | ({"logprobs": []} if block.kind == "text" else {})
