"""OpenAI's APIs: completions, chat completions and responses."""

import secrets
import time
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
    openai_error,
    passed_on,
    refuse_fields,
    sse,
)
from rollouts.fleet.capture.upstream import Completion, Generated, Json, Kind, Refusal

DONE: Final = b"data: [DONE]\n\n"
UNSUPPORTED: Final = ("previous_response_id", "conversation", "background", "prompt")
"""Fields that need stored responses; an agent sends its whole context instead."""
_DELTAS = {
    "text": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "tool": "response.function_call_arguments.delta",
}


class OpenAiCompletions:
    """A completion; requests and responses pass unchanged, with the fields for capture added."""

    kind: ClassVar[Kind] = "completion"
    path: ClassVar[str] = "completions"

    def __init__(self, body: Json) -> None:
        model = body.get("model") or ""
        if not isinstance(model, str):
            raise Refusal("model: must be a string", status=400, param="model")
        self.model = model
        self.is_streamed = bool(body.get("stream"))
        self.messages = self._messages(body)
        self.body = body | {"return_token_ids": True, "logprobs": self._logprobs(body)}

    def _messages(self, body: Json) -> list[Json]:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int):
            raise Refusal(
                f"prompt: has {len(prompt)} prompts; capture supports one",
                status=400,
                param="prompt",
            )
        return []

    def _logprobs(self, body: Json) -> object:
        return body.get("logprobs") or 1

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        return content

    def stream(self) -> WireStream:
        return _PassedStream()

    @staticmethod
    def error(refusal: Refusal) -> Json:
        return openai_error(refusal)


class OpenAiChat(OpenAiCompletions):
    """A chat completion."""

    kind: ClassVar[Kind] = "chat"
    path: ClassVar[str] = "chat/completions"

    def _messages(self, body: Json) -> list[Json]:
        messages = body.get("messages")
        if not isinstance(messages, list) or any(not isinstance(one, dict) for one in messages):
            raise Refusal("messages: must be a list of objects", status=400, param="messages")
        return messages

    def _logprobs(self, body: Json) -> object:  # noqa: ARG002 interface
        return True


class _PassedStream:
    def add(self, chunk: Completion, raw: str) -> list[Event]:
        completes = any(choice.finish_reason for choice in chunk.choices)
        return [Event(f"data: {raw}\n\n".encode(), completes)]

    def finish(self, generated: Generated) -> list[bytes]:  # noqa: ARG002 interface
        return [DONE]

    def fail(self, refusal: Refusal) -> list[bytes]:
        return [b"data: " + msgspec.json.encode(openai_error(refusal)) + b"\n\n", DONE]


class InputText(Struct, tag_field="type", tag="input_text"):
    """Text of an input message."""

    text: str


class OutputText(Struct, tag_field="type", tag="output_text"):
    """Text of an earlier answer."""

    text: str


class ReasoningText(Struct, tag_field="type", tag="reasoning_text"):
    """Text of an earlier reasoning."""

    text: str


class RefusalText(Struct, tag_field="type", tag="refusal"):
    """Text of an earlier refusal."""

    refusal: str

    @property
    def text(self) -> str:
        """The text, as in other parts."""
        return self.refusal


Part = InputText | OutputText | RefusalText


class InputMessage(Struct, tag_field="type", tag="message"):
    """Message of a conversation."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]


class FunctionCall(Struct, tag_field="type", tag="function_call"):
    """Earlier call of a function."""

    call_id: str
    name: str
    arguments: str


class FunctionCallOutput(Struct, tag_field="type", tag="function_call_output"):
    """Result of a function call."""

    call_id: str
    output: str | list[InputText]


class ReasoningItem(Struct, tag_field="type", tag="reasoning"):
    """Earlier reasoning."""

    content: list[ReasoningText] | None = None


Item = InputMessage | FunctionCall | FunctionCallOutput | ReasoningItem


class FunctionTool(Struct):
    """Function that the model may call."""

    type: Literal["function"]
    name: Annotated[str, Meta(min_length=1)]
    parameters: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class ChosenFunction(Struct):
    """Function that the model must call."""

    type: Literal["function"]
    name: str


class TextFormat(Struct):
    """Format of the answer."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextConfig(Struct):
    """Configuration of the answer's text."""

    format: TextFormat | None = None


class ResponsesRequest(Struct):
    """Body of ``POST /v1/responses``; other fields have no effect on the answer."""

    input: str | list[Item]
    model: str = ""
    instructions: str | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | ChosenFunction | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: TextConfig | None = None
    stream: bool | None = None


def read_request(body: Json) -> ResponsesRequest:
    """Return the typed body of a request.

    Raises:
        Refusal: If it is invalid, or needs something that capture does not support.
    """
    refuse_fields(body, UNSUPPORTED)
    items = body.get("input")
    if isinstance(items, list):
        body = body | {"input": [_with_type(item) for item in items]}
    return decoded(body, ResponsesRequest)


def as_chat(request: ResponsesRequest, body: Json) -> Json:
    """Return a request as a chat completion, without the fields for capture."""
    made: Json = {
        "model": request.model,
        "messages": messages_of(request),
        "max_completion_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stream": request.stream,
        "response_format": _response_format(request.text),
    }
    if request.tools:
        made["tools"] = [_tool(tool) for tool in request.tools]
        made["tool_choice"] = _tool_choice(request)
        made["parallel_tool_calls"] = request.parallel_tool_calls
    return {name: value for name, value in made.items() if value is not None} | passed_on(body)


def messages_of(request: ResponsesRequest) -> list[Json]:
    """Return the messages of the chat: items of one answer form one assistant message."""
    messages: list[Json] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    for item in request.input:
        if isinstance(item, FunctionCallOutput):
            text = _text(item.output)
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": text})
        elif isinstance(item, InputMessage) and item.role != "assistant":
            _add_input(messages, item)
        else:
            _add_answer(messages, item)
    return messages


def _add_input(messages: list[Json], item: InputMessage) -> None:
    role = "user" if item.role == "user" else "system"
    text = _text(item.content)
    if role == "system" and len(messages) == 1 and messages[0]["role"] == "system":
        # Chat templates support one system message, at the beginning.
        messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{text}"}
    else:
        messages.append({"role": role, "content": text})


def _add_answer(messages: list[Json], item: InputMessage | FunctionCall | ReasoningItem) -> None:
    """Add an item to the assistant's message at the end, or to a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    message = messages[-1]
    if isinstance(item, InputMessage):
        message["content"] = (message["content"] or "") + _text(item.content)
    elif isinstance(item, FunctionCall):
        function = {"name": item.name, "arguments": item.arguments}
        call = {"id": item.call_id, "type": "function", "function": function}
        message.setdefault("tool_calls", []).append(call)
    elif item.content:
        message["reasoning"] = "".join(part.text for part in item.content)


def _with_type(item: object) -> object:
    """Return an item with its type, which OpenAI's clients omit for messages."""
    is_message = isinstance(item, dict) and "role" in item and not item.get("type")
    return item | {"type": "message"} if is_message and isinstance(item, dict) else item


def _text(content: str | list[Any]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _tool(tool: FunctionTool) -> Json:
    function: Json = {"name": tool.name, "parameters": tool.parameters or {}}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(request: ResponsesRequest) -> object:
    if isinstance(request.tool_choice, ChosenFunction):
        return {"type": "function", "function": {"name": request.tool_choice.name}}
    return request.tool_choice or "auto"


def _response_format(text: TextConfig | None) -> Json | None:
    if text is None or text.format is None or text.format.type == "text":
        return None
    if text.format.type == "json_object":
        return {"type": "json_object"}
    schema: Json = {"name": text.format.name or "answer", "schema": text.format.schema or {}}
    if text.format.strict is not None:
        schema["strict"] = text.format.strict
    return {"type": "json_schema", "json_schema": schema}


class OpenAiResponses:
    """A response; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "responses"
    path: ClassVar[str] = "chat/completions"

    def __init__(self, body: Json) -> None:
        request = read_request(body)
        chat = as_chat(request, body)
        self.model, self.is_streamed = request.model, bool(request.stream)
        self.messages = chat["messages"]
        self.body = chat | {"return_token_ids": True, "logprobs": True}
        self._head = _head(body)

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        return msgspec.json.encode(
            _finished(self._head, blocks_of(generated.message), generated),
        )

    def stream(self) -> WireStream:
        return _ResponsesStream(self._head)

    @staticmethod
    def error(refusal: Refusal) -> Json:
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
