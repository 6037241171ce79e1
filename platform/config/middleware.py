"""Middleware of requests: ids, security headers and the log of calls."""

import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from buffer.atropos.rules import NAMES as ATROPOS_NAMES
from buffer.batches.api.answers import StoredAnswer
from config import monitoring
from config.log_filters import LONGEST_LINE, LONGEST_TEXT
from rolldeck import __version__
from rolldeck.versions import HEADER as VERSION_HEADER
from runs.access.models import ApiToken
from web.http import request_ids
from web.http.request_ids import CURRENT

logger = logging.getLogger(__name__)

SHORT_TEXT: Final = 20
"""Characters of each text of a client in a line of a call that would be too long."""


# Middleware of all requests: their ids, and security headers of their responses.

HEADER: Final = "X-Request-ID"
_ACCEPTED: Final = re.compile(r"[\w.-]{8,64}", re.ASCII)

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def id_of(request: HttpRequest) -> str:
    """Return the id given by the client or a proxy, or a new one."""
    given = request.headers.get(HEADER, "")
    return given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex


def _complete(response: HttpResponseBase, request: HttpRequest) -> None:
    response[HEADER] = request_ids.CURRENT.get()
    # Only to the client package, which compares it with its own.
    if request.headers.get("User-Agent", "").startswith("rolldeck/"):
        response[VERSION_HEADER] = __version__


@sync_and_async_middleware
def request_id_middleware(get_response: Sync | Async) -> Sync | Async:
    """Make the request's id available to services, and return it to the client."""

    async def answer_later(request: HttpRequest) -> HttpResponseBase:
        token = request_ids.CURRENT.set(id_of(request))
        try:
            response: HttpResponseBase = await get_response(request)  # type: ignore[misc]
            _complete(response, request)
            return response
        finally:
            request_ids.CURRENT.reset(token)

    def answer(request: HttpRequest) -> HttpResponseBase:
        token = request_ids.CURRENT.set(id_of(request))
        try:
            response: HttpResponseBase = get_response(request)  # type: ignore[assignment]
            _complete(response, request)
            return response
        finally:
            request_ids.CURRENT.reset(token)

    return answer_later if iscoroutinefunction(get_response) else answer


def health_middleware(get_response: Sync) -> Sync:
    """Answer health checks before the check of the host: probes use addresses of containers."""
    views = {"/healthz/live": monitoring.live, "/healthz/ready": monitoring.ready}

    def answer(request: HttpRequest) -> HttpResponseBase:
        view = views.get(request.path)
        return get_response(request) if view is None else view(request)

    return answer


_POLICY: Final = (
    "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGES: Final = _POLICY.format(scripts="'self'")
# The admin uses Alpine, which compiles the expressions of its attributes.
ADMIN: Final = _POLICY.format(scripts="'self' 'unsafe-eval'")
# Data and files load nothing. A stricter policy would stop a browser's own view of a video.
DATA: Final = "frame-ancestors 'none'"


def transport_security() -> str:
    """Return the value of Strict-Transport-Security; empty without HTTPS."""
    seconds = settings.ROLLDECK_HSTS_SECONDS if settings.SESSION_COOKIE_SECURE else 0
    return f"max-age={seconds}; includeSubDomains" if seconds else ""


class SecurityHeaders:
    """Middleware that adds a policy and HSTS to all responses; those of the API are not cached."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._transport = transport_security()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add the headers to the response."""
        response = self._get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            is_admin = request.path.startswith("/admin/")
            response.headers.setdefault("Content-Security-Policy", ADMIN if is_admin else PAGES)
        else:
            response.headers.setdefault("Content-Security-Policy", DATA)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        if request.path.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "no-store")
        if self._transport:
            response.headers["Strict-Transport-Security"] = self._transport
        return response


# Log the refused and the slow API calls of machines, one line of JSON each.


class CallLog:
    """Middleware that logs the calls of machines.

    Requests from the dashboard are not logged: run events cover changes made there. Requests
    that wait for a batch are logged when they begin to wait.
    """

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Process the request, and log it if it was refused or slow."""
        began = time.perf_counter()
        response: HttpResponseBase = self._get_response(request)
        duration_ms = (time.perf_counter() - began) * 1e3
        is_refused = response.status_code >= 400
        if is_refused or duration_ms >= settings.ROLLDECK_SLOW_CALL_MS:
            _log(request, response, duration_ms=duration_ms, is_refused=is_refused)
        return response


def _log(
    request: HttpRequest, response: HttpResponseBase, *, duration_ms: float, is_refused: bool
) -> None:
    match = request.resolver_match
    route = match.route if match else ""
    principal = _principal(request, route, is_refused=is_refused)
    if not principal:
        return
    token = getattr(request, "auth", None)
    size_bytes = None  # of a stream
    if isinstance(response, StoredAnswer):
        size_bytes = sum(map(len, response.parts))
    elif isinstance(response, HttpResponse):
        size_bytes = len(response.content)
    facts: dict[str, Any] = {
        "method": request.method,
        "route": route,
        "path": request.path[:LONGEST_TEXT],
        "run": match.kwargs.get("run") if match else None,
        "status": response.status_code,
        "duration_ms": round(duration_ms, 1),
        "principal": principal,
        "token": f"{token.name} ({token.prefix})" if isinstance(token, ApiToken) else None,
        "client": request.headers.get("User-Agent", "")[:LONGEST_TEXT],
        "bytes_in": int(request.META.get("CONTENT_LENGTH") or 0),  # checked by the server
        "bytes_out": size_bytes,
        "replayed": "Idempotent-Replayed" in response.headers,
        "request_id": CURRENT.get(),
        **_error(response),
    }
    level = logging.WARNING if is_refused else logging.INFO
    # Without the empty facts. ASCII only: texts of clients cannot forge lines or control terminals.
    line = json.dumps({k: v for k, v in facts.items() if v})
    # The lines of clients without a token are limited (config.log_filters).
    for name in ("client", "detail", "path", "run"):
        if token is None and len(line) > LONGEST_LINE - len("api_call: "):
            facts[name] = (facts.get(name) or "")[:SHORT_TEXT]
            line = json.dumps({k: v for k, v in facts.items() if v})
    extra = {} if token else {"request": request, "status_code": response.status_code}
    logger.log(level, "api_call: %s", line, extra=extra)
    response._has_been_logged = True  # type: ignore[attr-defined] # noqa: SLF001 no second line


def _principal(request: HttpRequest, route: str, *, is_refused: bool) -> str:
    """Return the calling machine, or "" for people and their pages."""
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        return f"token:{token.pk}"
    if getattr(getattr(request, "user", None), "is_authenticated", False):
        return ""
    is_machine = route in ATROPOS_NAMES or route.startswith("atropos/")
    if is_machine or (is_refused and route.startswith("api/v1/")):
        return f"address:{request.META.get('REMOTE_ADDR', '')}"
    return ""


def _error(response: HttpResponseBase) -> dict[str, str]:
    """Return the code and the message of a refusal."""
    if response.status_code < 400 or not isinstance(response, HttpResponse):
        return {}
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    detail = str(problem.get("detail", problem.get("message", "")))
    return {"code": str(problem.get("code", "")), "detail": detail[:LONGEST_TEXT]}
