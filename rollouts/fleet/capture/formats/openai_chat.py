"""OpenAI's completions and chat completions, which inference servers support themselves."""

from typing import ClassVar, Final

import msgspec

from rollouts.fleet.capture.formats.base import Event, WireStream, openai_error
from rollouts.fleet.capture.reading import Generated, Kind
from rollouts.fleet.capture.upstream import Completion, Json, Refusal

DONE: Final = b"data: [DONE]\n\n"


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
