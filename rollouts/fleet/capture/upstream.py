"""Calls of an inference server with OpenAI's API, and the parts of its responses for capture."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

import httpx
import msgspec
from msgspec import Meta, Struct

from rolldeck import tracing
from rolldeck.captures import Answer, CallPush, Drawn, Logprob, Token

logger = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]
Step = Annotated[int, Meta(ge=-1)]
"""Step of a policy version; −1 for weights that no trainer has published."""

UPSTREAM_SECONDS: Final = 600.0
"""Time limit for each part of a response of the inference server."""
DETOKENIZE_SECONDS: Final = 30.0
TOKENIZED: Final = ("model", "messages", "tools", "chat_template_kwargs")
"""Fields of a chat completion that its prompt depends on."""
SHOWN_ERROR: Final = 500
Kind = Literal["chat", "completion", "responses", "messages"]
MOST_GAP: Final = 1000
MOST_FINISH: Final = 40


class Refusal(Exception):
    """A request that gets an error as its response.

    Attributes:
        status: HTTP status; 4xx if the agent can correct the request.
        param: Field of the request; None if no single field is the cause.
        code: Code of the inference server's error; None if it sent none.
        retry_after: Seconds until a retry is useful, as sent by the inference server.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        param: str | None = None,
        code: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after


class Function(Struct):
    """Function of a tool call; a chunk contains a part of its arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct):
    """Tool call of a message, or a part of one in a chunk."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Message(Struct):
    """Message of a choice, or a part of one in a chunk."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """Name of `reasoning` in older versions of vLLM."""
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class TokenLogprob(Struct):
    """Log probability of one token of a chat."""

    logprob: Logprob


class Logprobs(Struct):
    """Log probabilities, where OpenAI puts them: for a chat, or for a completion."""

    content: list[TokenLogprob] | None = None
    token_logprobs: list[Logprob] | None = None


class Choice(Struct):
    """One answer, or a part of one in a chunk."""

    index: Count = 0
    text: str | None = None
    message: Message | None = None
    delta: Message | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    """Stop text or token that ended the answer, of vLLM."""
    prompt_token_ids: list[Token] | None = None
    token_ids: list[Token] | None = None
    token_logprobs: list[Logprob] | None = None
    policy_versions: list[tuple[Count, Step, Count]] | None = None
    logprobs: Logprobs | None = None

    @property
    def sampled_logprobs(self) -> list[float]:
        """Log probabilities of the tokens, for all supported servers."""
        if self.token_logprobs is not None:
            return self.token_logprobs
        if self.logprobs is None:
            return []
        if self.logprobs.content is not None:
            return [one.logprob for one in self.logprobs.content]
        return self.logprobs.token_logprobs or []


class Completion(Struct):
    """Response of the inference server, or one chunk of it."""

    choices: list[Choice] = []
    model: str | None = None
    prompt_token_ids: list[Token] | None = None
    error: Any = None


class Counted(Struct):
    """Response of ``/tokenize``."""

    count: Count


class InferenceServer:
    """HTTP client of the inference server."""

    def __init__(self, url: str, *, seconds: float = UPSTREAM_SECONDS) -> None:
        """Set up the client.

        Args:
            url: Base URL, such as ``http://127.0.0.1:8001/v1``.
            seconds: Time limit for each part of a response.
        """
        self._url, self._seconds = url.rstrip("/"), seconds
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(seconds, connect=5.0))

    async def close(self) -> None:
        await self._http.aclose()

    async def models(self) -> Json:
        """Return the list of models.

        Raises:
            Refusal: If the server is unreachable, or refuses.
        """
        response = await self._send(self._http.build_request("GET", f"{self._url}/models"))
        return _decoded(await self.content(response), Json)

    async def send(self, path: str, body: Json) -> httpx.Response:
        """Return the response to a request, with an unread content.

        Raises:
            Refusal: If the server is unreachable, or refuses.
        """
        url, headers = f"{self._url}/{path}", tracing.headers()
        return await self._send(self._http.build_request("POST", url, json=body, headers=headers))

    async def content(self, response: httpx.Response) -> bytes:
        """Return the content of a response.

        Raises:
            Refusal: If the response is incomplete.
        """
        try:
            return await response.aread()
        except httpx.TransportError as error:
            raise self._broken(error) from error
        finally:
            await response.aclose()

    async def chunks(self, response: httpx.Response) -> AsyncIterator[tuple[Completion, str]]:
        """Yield the chunks of a streamed response, decoded and as sent.

        Raises:
            Refusal: If the response is incomplete, or contains an error.
        """
        try:
            async for line in response.aiter_lines():
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                yield completion(data.encode()), data
        except httpx.TransportError as error:
            raise self._broken(error) from error
        raise Refusal("the inference server ended the stream before [DONE]", status=502)

    async def count_tokens(self, chat: Json) -> int:
        """Return the number of prompt tokens of a chat completion.

        Raises:
            Refusal: If the server is unreachable, refuses, or has no ``/tokenize``.
        """
        url = f"{self._url.removesuffix('/v1')}/tokenize"
        body = {name: chat[name] for name in TOKENIZED if name in chat}
        response = await self._send(self._http.build_request("POST", url, json=body))
        return _decoded(await self.content(response), Counted).count

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text of tokens, with special tokens; None if the server does not report it."""
        url = f"{self._url.removesuffix('/v1')}/detokenize"
        try:
            response = await self._http.post(
                url, json={"tokens": list(tokens)}, timeout=DETOKENIZE_SECONDS
            )
            text = response.json()["prompt"] if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            logger.warning("detokenize: %s", error)
            return None
        return text if isinstance(text, str) else None

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._http.send(request, stream=True)
        except httpx.ReadTimeout as error:
            raise self._broken(error) from error
        except httpx.TransportError as error:
            raise Refusal(f"the inference server is unreachable: {error}", status=503) from error
        status = response.status_code
        if status == 200:
            return response
        content = await self.content(response)
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            body = None
        reason = body.get("error", body) if isinstance(body, dict) else None
        if reason is None:
            shown = content[:SHOWN_ERROR].decode(errors="replace")
            reason = f"the inference server answered {shown!r}"
        message, code, param = _error(reason)
        raise Refusal(
            message,
            status=status if status >= 400 else 502,
            param=param,
            code=code,
            retry_after=response.headers.get("retry-after"),
        )

    def _broken(self, error: httpx.TransportError) -> Refusal:
        if isinstance(error, httpx.ReadTimeout):
            return Refusal(f"the inference server sent nothing for {self._seconds:g} s", status=504)
        return Refusal(f"the inference server closed the connection: {error}", status=502)


def completion(content: bytes) -> Completion:
    """Return a decoded response or chunk.

    Raises:
        Refusal: If it is invalid, or an error.
    """
    decoded = _decoded(content, Completion)
    if decoded.error is not None:
        message, code, _ = _error(decoded.error)
        raise Refusal(f"the inference server failed: {message}", status=502, code=code)
    return decoded


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = content[:SHOWN_ERROR].decode(errors="replace")
        raise Refusal(
            f"the inference server sent an invalid response: {error}: {shown!r}", status=502
        ) from error


def _error(error: object) -> tuple[str, str | None, str | None]:
    """Return message, code and field of an error in OpenAI's format, or of anything else."""
    if not isinstance(error, dict):
        return str(error)[:SHOWN_ERROR], None, None
    message = str(error.get("message") or error)[:SHOWN_ERROR]
    code, param = error.get("code"), error.get("param")
    return message, None if code is None else str(code), param if isinstance(param, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The first answer of a call, and its size in tokens."""

    message: Message
    finish: str
    stop_text: str | None
    """Stop text that ended the answer, if the server reports it."""
    prompt_tokens: int
    tokens: int


@dataclass(slots=True)
class _Choice:
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int, int]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    tools: dict[int, ToolCall] = field(default_factory=dict)
    role: str = "assistant"
    finish: str = ""
    stop_text: str | None = None

    def add(self, piece: Choice) -> None:
        """Add a choice of a response, or of a chunk."""
        self.prompt = self.prompt or piece.prompt_token_ids or []
        self.tokens += piece.token_ids or []
        self.logprobs += piece.sampled_logprobs
        # Each chunk has the versions of all tokens so far.
        self.versions = piece.policy_versions or self.versions
        self.finish = piece.finish_reason or self.finish
        if isinstance(piece.stop_reason, str):
            self.stop_text = piece.stop_reason
        self.text.append(piece.text or "")
        message = piece.message or piece.delta
        if message is None:
            return
        self.role = message.role or self.role
        self.text.append(message.content or "")
        self.reasoning.append(message.reasoning or message.reasoning_content or "")
        self.refusal.append(message.refusal or "")
        for place, part in enumerate(message.tool_calls or []):
            index = place if part.index is None else part.index
            call = self.tools.setdefault(index, ToolCall(index=index))
            call.id = call.id or part.id
            before, new = call.function or Function(), part.function or Function()
            arguments = (before.arguments or "") + (new.arguments or "")
            call.function = Function(name=before.name or new.name, arguments=arguments)

    def message(self) -> Message:
        """Return the message of the choice so far."""
        return Message(
            role=self.role,
            content="".join(self.text),
            reasoning="".join(self.reasoning) or None,
            refusal="".join(self.refusal) or None,
            tool_calls=[self.tools[index] for index in sorted(self.tools)] or None,
        )


class Reading:
    """Captured data of one call; call `add` for each response or chunk."""

    def __init__(self, *, kind: Kind, model: str, messages: list[Json]) -> None:
        """Start with a request.

        Args:
            kind: API of the request.
            model: Model that the agent named; empty for any.
            messages: Messages of a chat; empty for a completion.
        """
        self._kind, self._model, self._messages = kind, model, messages
        self._choices: dict[int, _Choice] = {}
        self._prompt: list[int] = []

    def add(self, response: Completion) -> None:
        """Add a response or a chunk.

        Raises:
            Refusal: If another model generated it.
        """
        if self._model and response.model and response.model != self._model:
            raise Refusal(
                f"the inference server answered with model {response.model!r}, "
                f"not with {self._model!r}",
                status=502,
            )
        self._prompt = self._prompt or response.prompt_token_ids or []
        for piece in response.choices:
            self._choices.setdefault(piece.index, _Choice()).add(piece)

    def generated(self) -> Generated:
        """Return the first answer."""
        choice = self._choices.get(0) or _Choice()
        return Generated(
            message=choice.message(),
            finish=choice.finish,
            stop_text=choice.stop_text,
            prompt_tokens=len(choice.prompt or self._prompt),
            tokens=len(choice.tokens),
        )

    def gap(self, key: str, why: str) -> CallPush:
        """Return the call without data, to store an answer that the agent received in part."""
        return self._push(key, gap=why[:MOST_GAP])

    def call(self, key: str) -> CallPush:
        """Return the complete call to store.

        Raises:
            Refusal: If the response lacks data for training; the text names it.
        """
        choices = [self._choices[index] for index in sorted(self._choices)]
        if not choices:
            raise _lack("no choice")
        prompts = [choice.prompt or self._prompt for choice in choices]
        if not all(prompts):
            raise _lack("no token ids of the prompt")
        if any(prompt != prompts[0] for prompt in prompts):
            raise Refusal("the call has several prompts; capture supports one", status=400)
        is_chat = self._kind != "completion"
        answers = []
        for choice in choices:
            message = choice.message()
            has_content = message.content or message.tool_calls or message.reasoning
            if not choice.tokens and has_content:
                raise _lack("no token ids of the answer")
            if len(choice.logprobs) != len(choice.tokens):
                raise _lack(f"{len(choice.logprobs)} logprobs for {len(choice.tokens)} tokens")
            if not choice.finish:
                raise _lack("an incomplete answer, without a finish reason")
            # Weights that no trainer has published have no version.
            versions = [Drawn(epoch=e, step=s, tokens=n) for e, s, n in choice.versions if s >= 0]
            is_covered = sum(one.tokens for one in versions) == len(choice.tokens)
            answers.append(
                Answer(
                    tokens=choice.tokens,
                    logprobs=choice.logprobs,
                    versions=versions if is_covered else [],
                    finish=choice.finish[:MOST_FINISH],
                    message=as_json(message) if is_chat else None,
                    text="" if is_chat else message.content or "",
                )
            )
        return self._push(key, prompt_tokens=prompts[0], answers=answers)

    def _push(self, key: str, **fields: Any) -> CallPush:
        return CallPush(
            key=key, kind=self._kind, model=self._model[:200], messages=self._messages, **fields
        )


def as_json(message: Message) -> Json:
    """Return a message as OpenAI's chat completions contain it."""
    shown: Json = {"role": message.role, "content": message.content}
    if message.reasoning:
        shown["reasoning"] = message.reasoning
    if message.refusal:
        shown["refusal"] = message.refusal
    if message.tool_calls:
        shown["content"] = message.content or None
        calls = [(call.id or "", call.function or Function()) for call in message.tool_calls]
        shown["tool_calls"] = [
            chat_tool_call(call_id, function.name or "", function.arguments or "")
            for call_id, function in calls
        ]
    return shown


def chat_tool_call(call_id: str, name: str, arguments: str) -> Json:
    """Return a tool call as messages of OpenAI's chat completions contain it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _lack(lack: str) -> Refusal:
    return Refusal(f"the inference server returned {lack}; the call cannot be captured", status=502)
