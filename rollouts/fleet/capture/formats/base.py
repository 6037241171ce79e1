"""Interface of an API that agents use: it translates requests, responses, streams and errors."""

from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rollouts.fleet.capture.reading import Generated, Kind
from rollouts.fleet.capture.refusals import Refusal
from rollouts.fleet.capture.upstream import Completion, Json

A = TypeVar("A", bound=Struct)

PASSED_ON: Final = (
    *("seed", "top_k", "min_p", "min_tokens", "ignore_eos", "stop_token_ids"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "chat_template_kwargs"),
)
"""Fields of inference servers that a translated request may contain."""


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
