"""Proxy between agent programs and an inference server that captures all calls.

An agent uses ``http://proxy/sessions/<session>/v1`` as its OpenAI base URL. A response is sent only
after the platform has stored the call, so an agent never acts on tokens that training does not
see. The last chunk of a stream waits for that.
"""

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rolldeck.captures import SESSION_PATTERN, CallPush
from rollouts.fleet.capture.call_store import CallNotStored, CallStore
from rollouts.fleet.capture.reading import Json, Reading

logger = logging.getLogger(__name__)

UPSTREAM_SECONDS: Final = 600.0
"""Time limit for a response of the inference server."""
MOST_BODY_BYTES: Final = 32 << 20
SHOWN_ERROR: Final = 500


class Refusal(Exception):
    """A request is refused, with an error in OpenAI's format."""

    def __init__(self, message: str, *, status: int, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param

    def body(self) -> Json:
        """Return the error in OpenAI's format."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.status}
        return {"error": error}


class CaptureProxy:
    """The proxy as an ASGI application, `app`."""

    def __init__(self, *, upstream: str, store: CallStore, api_key: str = "") -> None:
        """Set up the proxy.

        Args:
            upstream: Base URL of the inference server, such as ``http://127.0.0.1:8001/v1``.
            store: Stores the calls.
            api_key: API key that agents must send; empty for none.
        """
        self._upstream = upstream.rstrip("/")
        self._store = store
        self._api_key = api_key
        self._late: set[asyncio.Task[None]] = set()
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(UPSTREAM_SECONDS, connect=5.0))
        session = "/sessions/{session}/v1"
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                Route(f"{session}/models", self._models),
                Route(f"{session}/completions", self._complete, methods=["POST"]),
                Route(f"{session}/chat/completions", self._chat, methods=["POST"]),
            ],
            exception_handlers={Refusal: _refuse},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002 required
        """Serve; at the end, wait for pending calls to be stored and close the connections."""
        yield
        await asyncio.gather(*self._late)
        await self._http.aclose()
        await asyncio.to_thread(self._store.close)

    async def _health(self, request: Request) -> Response:  # noqa: ARG002 required signature
        return JSONResponse({"status": "ready", "captured": self._store.saved})

    async def _models(self, request: Request) -> Response:
        self._admit(request)
        try:
            answer = await self._http.get(f"{self._upstream}/models")
        except httpx.TransportError as error:
            raise Refusal(f"the inference server is unreachable: {error}", status=503) from error
        return Response(answer.content, answer.status_code, media_type="application/json")

    async def _complete(self, request: Request) -> Response:
        return await self._pass_on(request, "completions", is_chat=False)

    async def _chat(self, request: Request) -> Response:
        return await self._pass_on(request, "chat/completions", is_chat=True)

    async def _pass_on(self, request: Request, path: str, *, is_chat: bool) -> Response:
        session = self._admit(request)
        body = await _body(request)
        reading = Reading(body, is_chat=is_chat)
        # Fields required for capture, which the agent then also receives.
        upstream_body = body | {"return_token_ids": True}
        upstream_body["logprobs"] = True if is_chat else body.get("logprobs") or 1
        call = self._http.build_request("POST", f"{self._upstream}/{path}", json=upstream_body)
        try:
            answer = await self._http.send(call, stream=True)
        except httpx.TransportError as error:
            raise Refusal(f"the inference server is unreachable: {error}", status=503) from error
        if answer.status_code == 200 and body.get("stream"):
            pieces = self._stream(answer, reading, session)
            return StreamingResponse(pieces, media_type="text/event-stream")
        try:
            content = await answer.aread()
        except httpx.TransportError as error:
            raise Refusal(
                f"the inference server closed the connection: {error}", status=502
            ) from error
        finally:
            await answer.aclose()
        if answer.status_code != 200:
            return Response(content, answer.status_code, media_type="application/json")
        reading.add(_object(content))
        if await request.is_disconnected():
            reading.mark_incomplete("the agent disconnected before it received the response")
        await self._save(session, reading.call(_key()))
        return Response(content, 200, media_type="application/json")

    async def _stream(
        self, answer: httpx.Response, reading: Reading, session: str
    ) -> AsyncIterator[bytes]:
        """Pass chunks on as they arrive, and end the stream once the call is stored."""
        is_over = False
        try:
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    break
                reading.add(_object(data.encode()))
                yield f"data: {data}\n\n".encode()
            is_over = True
            await self._save(session, reading.call(_key()))
        except (httpx.TransportError, Refusal) as failure:
            status = getattr(failure, "status", 502)
            refusal = Refusal(f"the response is incomplete: {failure}", status=status)
            yield b"data: " + msgspec.json.encode(refusal.body()) + b"\n\n"
        finally:
            # When the agent disconnects, this generator is closed and cannot wait.
            if not is_over:
                self._save_later(session, reading)
            await answer.aclose()
        yield b"data: [DONE]\n\n"

    def _save_later(self, session: str, reading: Reading) -> None:
        """Store a gap for a response that the agent received only in part."""
        reading.mark_incomplete("the response was incomplete, or the agent disconnected")
        task = asyncio.get_running_loop().create_task(self._save_gap(session, reading))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _save_gap(self, session: str, reading: Reading) -> None:
        try:
            await self._save(session, reading.call(_key()))
        except Refusal as refusal:
            logger.warning("gap in session %s not stored: %s", session, refusal)

    async def _save(self, session: str, call: CallPush) -> None:
        try:
            await asyncio.to_thread(self._store.save, session, call)
        except CallNotStored as failure:
            raise Refusal(str(failure), status=failure.status) from failure

    def _admit(self, request: Request) -> str:
        token = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self._api_key and not secrets.compare_digest(token.encode(), self._api_key.encode()):
            raise Refusal("the API key is invalid", status=401)
        session = str(request.path_params["session"])
        if not re.match(SESSION_PATTERN, session):
            raise Refusal("a session name has 1 to 120 letters, digits, - or _", status=404)
        return session


def _key() -> str:
    return secrets.token_hex(16)


async def _body(request: Request) -> Json:
    body = b""
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


def _object(content: bytes) -> Json:
    try:
        found = json.loads(content)
    except ValueError as error:
        shown = content[:SHOWN_ERROR].decode(errors="replace")
        raise Refusal(f"the inference server answered {shown!r}", status=502) from error
    return found if isinstance(found, dict) else {}


async def _refuse(request: Request, refusal: Exception) -> Response:  # noqa: ARG001 signature
    assert isinstance(refusal, Refusal)  # noqa: S101 registered for this class
    return JSONResponse(refusal.body(), refusal.status)
