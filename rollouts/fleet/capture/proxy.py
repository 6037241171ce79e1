"""Proxy between agent programs and an inference server that captures all calls.

An agent uses ``http://proxy/capture/<session>`` as its base URL, or names the session in a header.
A response is sent only after the platform has stored the call, so an agent never acts on tokens
that training does not have. In a stream, the end of an answer or of a tool call waits for that.
"""

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rolldeck.captures import SESSION_PATTERN, CallPush
from rollouts.fleet.capture.calls import (
    CallNotStored,
    CallSpan,
    PlatformCallStore,
    call_span,
)
from rollouts.fleet.capture.drift import DriftRepair
from rollouts.fleet.capture.formats.anthropic_messages import AnthropicMessages
from rollouts.fleet.capture.formats.base import WireFormat, openai_error
from rollouts.fleet.capture.formats.openai import OpenAiChat, OpenAiCompletions, OpenAiResponses
from rollouts.fleet.capture.upstream import (
    UPSTREAM_SECONDS,
    Completion,
    InferenceServer,
    Json,
    Reading,
    Refusal,
    completion,
)

logger = logging.getLogger(__name__)

MOST_BODY_BYTES: Final = 32 << 20
FORMATS: Final[tuple[tuple[str, type[WireFormat]], ...]] = (
    ("completions", OpenAiCompletions),
    ("chat/completions", OpenAiChat),
    ("responses", OpenAiResponses),
    ("messages", AnthropicMessages),
)
"""Paths below ``/v1`` and their APIs."""
PREFIXES: Final = ("/capture/{session}", "/sessions/{session}", "")
"""Paths before ``/v1``; without a session in the path, a header names it."""

Chunks = AsyncIterator[tuple[Completion, str]]
View = Callable[[Request], Awaitable[Response]]
SESSION_HEADER: Final = "X-Rolldeck-Session"


def admitted_session(request: Request, api_key: str) -> str:
    """Return the session of a request, from its path or its header.

    Args:
        request: Request of an agent.
        api_key: API key that it must contain; empty for none.

    Raises:
        Refusal: If the key is invalid, or the session is missing, invalid or ambiguous.
    """
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    token = request.headers.get("x-api-key") or bearer
    if api_key and not secrets.compare_digest(token.encode(), api_key.encode()):
        raise Refusal("the API key is invalid", status=401)
    in_path, in_header = request.path_params.get("session"), request.headers.get(SESSION_HEADER)
    if in_path and in_header and in_path != in_header:
        raise Refusal(
            f"the path names session {in_path!r}, {SESSION_HEADER} names {in_header!r}", status=400
        )
    session = in_path or in_header
    if session is None:
        raise Refusal(
            f"no session: use the base URL /capture/<session>, or send {SESSION_HEADER}", status=400
        )
    if not re.fullmatch(SESSION_PATTERN, session):
        raise Refusal(
            f"session {session[:200]!r}: must have 1 to 120 letters, digits, - or _", status=404
        )
    return str(session)


class CaptureProxy:
    """The proxy as an ASGI application, `app`."""

    def __init__(
        self,
        *,
        upstream: str,
        store: PlatformCallStore,
        api_key: str = "",
        upstream_seconds: float = UPSTREAM_SECONDS,
    ) -> None:
        """Set up the proxy.

        Args:
            upstream: Base URL of the inference server, such as ``http://127.0.0.1:8001/v1``.
            store: Stores the calls.
            api_key: API key that agents must send; empty for none.
            upstream_seconds: Time limit for each part of a response of the inference server.
        """
        self._server = InferenceServer(upstream, seconds=upstream_seconds)
        self._store = store
        self._api_key = api_key
        self._drift = DriftRepair(self._server.detokenize)
        self._late: set[asyncio.Task[None]] = set()
        routes = [Route("/health", self._health)]
        for prefix in PREFIXES:
            routes.append(Route(f"{prefix}/v1/models", self._models))
            count = f"{prefix}/v1/messages/count_tokens"
            routes.append(Route(count, self._count_tokens, methods=["POST"]))
            for path, wire_format in FORMATS:
                view = self._view(wire_format)
                routes.append(Route(f"{prefix}/v1/{path}", view, methods=["POST"]))
        self.app = Starlette(
            routes=routes,
            exception_handlers={Refusal: _refuse, HTTPException: _refuse_path},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002 required
        """Serve; at the end, wait for pending calls to be stored and close the connections."""
        yield
        await asyncio.gather(*self._late)
        await self._server.close()
        await asyncio.to_thread(self._store.close)

    async def _health(self, request: Request) -> Response:  # noqa: ARG002 required signature
        return JSONResponse({"status": "ready", "captured": self._store.saved})

    async def _models(self, request: Request) -> Response:
        admitted_session(request, self._api_key)
        return JSONResponse(await self._server.models())

    async def _count_tokens(self, request: Request) -> Response:
        """Count the prompt tokens of a message with the tokenizer of the inference server."""
        try:
            admitted_session(request, self._api_key)
            counted = AnthropicMessages({"max_tokens": 1} | await _body(request))
            count = await self._server.count_tokens(counted.body)
        except Refusal as refusal:
            return _error_response(AnthropicMessages.error(refusal), refusal)
        return JSONResponse({"input_tokens": count})

    def _view(self, wire_format: type[WireFormat]) -> View:
        """Return the view of an API, which answers errors in the format of that API."""

        async def view(request: Request) -> Response:
            try:
                session = admitted_session(request, self._api_key)
                call = wire_format(await _body(request))
                headers = request.headers
                with call_span(kind=call.kind, model=call.model, headers=headers) as span:
                    return await self._answer(request, session, call, span)
            except Refusal as refusal:
                return _error_response(wire_format.error(refusal), refusal)

        return view

    async def _answer(
        self, request: Request, session: str, call: WireFormat, span: CallSpan
    ) -> Response:
        reading = Reading(kind=call.kind, model=call.model, messages=call.messages)
        response = await self._server.send(call.path, call.body)
        if call.is_streamed:
            chunks = self._server.chunks(response)
            try:
                # Until the first chunk, an error still has a status of its own.
                first = await anext(chunks, None)
            except Refusal:
                await response.aclose()
                raise
            stream = self._stream(call, reading, session, response, first, chunks, span)
            return StreamingResponse(stream, media_type="text/event-stream")
        content = await self._server.content(response)
        reading.add(completion(content))
        captured = reading.call(_key())
        if await request.is_disconnected():
            why = "the agent disconnected before it received the response"
            await self._save(session, reading.gap(captured.key, why))
        else:
            await self._save_answer(session, captured)
        generated = reading.generated()
        span.finish(generated)
        shown = call.response(generated, content)
        return Response(shown, media_type="application/json")

    async def _stream(
        self,
        call: WireFormat,
        reading: Reading,
        session: str,
        response: httpx.Response,
        first: tuple[Completion, str] | None,
        chunks: Chunks,
        span: CallSpan,
    ) -> AsyncIterator[bytes]:
        """Translate chunks as they arrive; the end waits until the call is stored."""
        stream = call.stream()
        held: list[bytes] = []
        is_sent = is_over = False
        try:
            async for chunk, raw in _chained(first, chunks):
                reading.add(chunk)
                for event in stream.add(chunk, raw):
                    if held or event.completes:
                        held.append(event.data)
                    else:
                        is_sent = True
                        yield event.data
            captured = reading.call(_key())
            is_over = True
            with span.current():
                await self._save_answer(session, captured)
            for data in [*held, *stream.finish(reading.generated())]:
                yield data
        except Refusal as refusal:
            for data in stream.fail(refusal):
                yield data
        finally:
            # When the agent disconnects, this generator is closed and cannot wait.
            if is_sent and not is_over:
                task = asyncio.get_running_loop().create_task(self._save_gap(session, reading))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            span.finish(reading.generated())
            await response.aclose()

    async def _save_gap(self, session: str, reading: Reading) -> None:
        """Store a gap for a response that the agent received only in part."""
        why = "the response was incomplete, or the agent disconnected"
        try:
            await self._save(session, reading.gap(_key(), why))
        except Refusal as refusal:
            logger.warning("gap in session %s not stored: %s", session, refusal)

    async def _save_answer(self, session: str, call: CallPush) -> None:
        repaired = await self._drift.repaired(session, call)
        await self._save(session, repaired)
        self._drift.remember(session, repaired)

    async def _save(self, session: str, call: CallPush) -> None:
        try:
            await asyncio.to_thread(self._store.save, session, call)
        except CallNotStored as failure:
            raise Refusal(str(failure), status=failure.status) from failure


async def _chained(first: tuple[Completion, str] | None, rest: Chunks) -> Chunks:
    if first is not None:
        yield first
    async for one in rest:
        yield one


def _key() -> str:
    return secrets.token_hex(16)


async def _body(request: Request) -> Json:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise Refusal(f"the body exceeds {MOST_BODY_BYTES} bytes", status=413)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not valid JSON: {error}", status=400) from error
    if not isinstance(found, dict):
        raise Refusal("the body must be a JSON object", status=400)
    return found


def _error_response(content: Json, refusal: Refusal) -> Response:
    headers = {"Retry-After": refusal.retry_after} if refusal.retry_after else None
    return JSONResponse(content, refusal.status, headers)


async def _refuse(request: Request, refusal: Exception) -> Response:  # noqa: ARG001 signature
    assert isinstance(refusal, Refusal)  # noqa: S101 registered for this class
    return _error_response(openai_error(refusal), refusal)


async def _refuse_path(request: Request, error: Exception) -> Response:
    """Answer an unknown path or method with an error in OpenAI's format."""
    assert isinstance(error, HTTPException)  # noqa: S101 registered for this class
    text = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse(openai_error(Refusal(text, status=error.status_code)), error.status_code)
