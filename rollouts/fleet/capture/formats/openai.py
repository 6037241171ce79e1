"""OpenAI's APIs: completions, chat completions and responses."""

import secrets
import time
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
    openai_error,
    sse,
)
from rollouts.fleet.capture.upstream import (
    Completion,
    Generated,
    Json,
    Kind,
    Refusal,
    chat_tool_call,
)

DONE: Final = b"data: [DONE]\n\n"
UNSUPPORTED: Final = ("previous_response_id", "conversation", "background", "prompt")
"""Fields that need stored responses; an agent sends its whole context instead."""
_DELTAS = {
    "text": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "tool": "response.function_call_arguments.delta",
}


class _PassedCall:
    """A call whose request and response pass unchanged, with the fields for capture added."""

    def __init__(self, body: Json, *, messages: list[Json], logprobs: object) -> None:
        model = body.get("model") or ""
        if not isinstance(model, str):
            raise Refusal("model: must be a string", status=400, param="model")
        self.model = model
        self.is_streamed = bool(body.get("stream"))
        self.messages = messages
        self.body = body | {"return_token_ids": True, "logprobs": logprobs}

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        return content

    def stream(self) -> WireStream:
        return _PassedStream()

    @staticmethod
    def error(refusal: Refusal) -> Json:
        return openai_error(refusal)


class OpenAiCompletions(_PassedCall):
    """A completion."""

    kind: ClassVar[Kind] = "completion"
    path: ClassVar[str] = "completions"

    def __init__(self, body: Json) -> None:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int):
            raise Refusal(
                f"prompt: has {len(prompt)} prompts; capture supports one",
                status=400,
                param="prompt",
            )
        super().__init__(body, messages=[], logprobs=body.get("logprobs") or 1)


class OpenAiChat(_PassedCall):
    """A chat completion."""

    kind: ClassVar[Kind] = "chat"
    path: ClassVar[str] = "chat/completions"

    def __init__(self, body: Json) -> None:
        messages = body.get("messages")
        if not isinstance(messages, list) or any(not isinstance(one, dict) for one in messages):
            raise Refusal("messages: must be a list of objects", status=400, param="messages")
        super().__init__(body, messages=messages, logprobs=True)


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
            continue
        if isinstance(item, InputMessage) and item.role != "assistant":
            role, text = "user" if item.role == "user" else "system", _text(item.content)
            if role == "system" and len(messages) == 1 and messages[0]["role"] == "system":
                # Chat templates support one system message, at the beginning.
                text = f"{messages.pop()['content']}\n\n{text}"
            messages.append({"role": role, "content": text})
            continue
        # Another item belongs to the assistant's message at the end, or to a new one.
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        message = messages[-1]
        if isinstance(item, InputMessage):
            message["content"] = (message["content"] or "") + _text(item.content)
        elif isinstance(item, FunctionCall):
            call = chat_tool_call(item.call_id, item.name, item.arguments)
            message.setdefault("tool_calls", []).append(call)
        elif item.content:
            message["reasoning"] = "".join(part.text for part in item.content)
    return messages


def _text(content: str | list[Any]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


class OpenAiResponses(TranslatedCall):
    """A response; the inference server receives a chat completion."""

    kind: ClassVar[Kind] = "responses"

    def __init__(self, body: Json) -> None:
        items = body.get("input")
        if isinstance(items, list):
            # OpenAI's clients omit the type of messages.
            typed = [
                item | {"type": "message"}
                if isinstance(item, dict) and "role" in item and not item.get("type")
                else item
                for item in items
            ]
            body = body | {"input": typed}
        request = decoded(body, ResponsesRequest, unsupported=UNSUPPORTED)
        chat: Json = {
            "messages": messages_of(request),
            "max_completion_tokens": request.max_output_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
        }
        form = request.text.format if request.text else None
        if form is not None and form.type == "json_object":
            chat["response_format"] = {"type": "json_object"}
        elif form is not None and form.type == "json_schema":
            schema: Json = {"name": form.name or "answer", "schema": form.schema or {}}
            if form.strict is not None:
                schema["strict"] = form.strict
            chat["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.tools:
            chat["tools"] = [
                chat_tool(
                    tool.name,
                    tool.parameters or {},
                    description=tool.description,
                    strict=tool.strict,
                )
                for tool in request.tools
            ]
            choice = request.tool_choice or "auto"
            chat["tool_choice"] = (
                chosen_tool(choice.name) if isinstance(choice, ChosenFunction) else choice
            )
            chat["parallel_tool_calls"] = request.parallel_tool_calls
        super().__init__(model=request.model, is_streamed=request.stream, chat=chat, body=body)
        self._head = _head(body)

    def response(self, generated: Generated, content: bytes) -> bytes:  # noqa: ARG002 interface
        blocks = blocks_of(generated.message)
        return msgspec.json.encode(_finished(self._head, blocks, generated))

    def stream(self) -> WireStream:
        return _ResponsesStream(self._head)

    @staticmethod
    def error(refusal: Refusal) -> Json:
        return openai_error(refusal)


class _ResponsesStream(TranslatedStream):
    """Events of a streamed response, numbered from 0."""

    def __init__(self, head: Json) -> None:
        super().__init__()
        self._head = head
        self._number = -1

    def fail(self, refusal: Refusal) -> list[bytes]:
        error = {"code": "server_error", "message": str(refusal)}
        response = self._head | {"status": "failed", "error": error}
        return [*self._begin(0), self._event("response.failed", response=response)]

    def first_events(self, prompt_tokens: int) -> list[bytes]:  # noqa: ARG002 interface
        names = ("response.created", "response.in_progress")
        return [self._event(name, response=self._head) for name in names]

    def events_of(self, change: BlockEvent) -> list[Event]:
        block = change.block
        place: Json = {"output_index": block.place}
        part_place = place | {"item_id": _identity(block), "content_index": 0}
        # The place of a delta and of its end; of a tool call, without a content index.
        text_place = place | {"item_id": _identity(block)} if block.kind == "tool" else part_place
        if block.kind == "text":
            text_place = text_place | {"logprobs": []}
        if change.action == "delta":
            return [Event(self._event(_DELTAS[block.kind], delta=change.text, **text_place))]
        if change.action == "open":
            item = _item(block, status="in_progress", is_empty=True)
            events = [self._event("response.output_item.added", item=item, **place)]
            if block.kind != "tool":
                part = _part(block, "")
                events.append(self._event("response.content_part.added", part=part, **part_place))
            return [Event(data) for data in events]
        text, done = block.text, _DELTAS[block.kind].removesuffix("delta") + "done"
        if block.kind == "tool":
            events = [self._event(done, arguments=text, name=block.name, **text_place)]
        else:
            part = _part(block, text)
            events = [
                self._event(done, text=text, **text_place),
                self._event("response.content_part.done", part=part, **part_place),
            ]
        item = _item(block, status="incomplete" if self._is_cut else "completed")
        events.append(self._event("response.output_item.done", item=item, **place))
        return [Event(data, block.kind == "tool") for data in events]

    def last_events(self, generated: Generated) -> list[bytes]:
        response = _finished(self._head, self._blocks.all, generated)
        return [self._event(f"response.{response['status']}", response=response)]

    def _event(self, name: str, /, **fields: Any) -> bytes:
        self._number += 1
        return sse(name, {"type": name, "sequence_number": self._number} | fields)


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
    head = {"id": _identity(block), "status": status}
    if block.kind == "tool":
        call = {"call_id": block.call_id, "name": block.name, "arguments": text}
        return head | {"type": "function_call"} | call
    if block.kind == "reasoning":
        return head | {"type": "reasoning", "summary": [], "content": parts}
    return head | {"type": "message", "role": "assistant", "content": parts}


def _part(block: Block, text: str) -> Json:
    if block.kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _identity(block: Block) -> str:
    return {"text": "msg_", "reasoning": "rs_", "tool": "fc_"}[block.kind] + block.identity
