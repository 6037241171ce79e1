"""Requests of OpenAI's Responses API, as chat completions."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from rollouts.fleet.capture.formats.base import decoded, passed_on, refuse_fields
from rollouts.fleet.capture.upstream import Json

UNSUPPORTED: Final = ("previous_response_id", "conversation", "background", "prompt")
"""Fields that need stored responses; an agent sends its whole context instead."""


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
