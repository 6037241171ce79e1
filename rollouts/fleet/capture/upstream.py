"""Calls of an inference server with OpenAI's API, and the parts of its responses for capture."""

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final, TypeVar

import httpx
import msgspec
from msgspec import Meta, Struct

from rolldeck import tracing
from rolldeck.captures import Logprob, Token

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
        """Close the connections."""
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
        if response.status_code != 200:
            raise _refused(response, await self.content(response))
        return response

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


def _refused(response: httpx.Response, content: bytes) -> Refusal:
    """Return the refusal of an inference server, with its own message if it has one."""
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = None
    error = body.get("error", body) if isinstance(body, dict) else None
    if error is None:
        error = f"the inference server answered {content[:SHOWN_ERROR].decode(errors='replace')!r}"
    message, code, param = _error(error)
    status = response.status_code if response.status_code >= 400 else 502
    retry_after = response.headers.get("retry-after")
    return Refusal(message, status=status, param=param, code=code, retry_after=retry_after)


def _error(error: object) -> tuple[str, str | None, str | None]:
    """Return message, code and field of an error in OpenAI's format, or of anything else."""
    if not isinstance(error, dict):
        return str(error)[:SHOWN_ERROR], None, None
    message = str(error.get("message") or error)[:SHOWN_ERROR]
    code, param = error.get("code"), error.get("param")
    return message, None if code is None else str(code), param if isinstance(param, str) else None
