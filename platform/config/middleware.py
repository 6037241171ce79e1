"""Middleware of all requests: their ids, and security headers of their responses."""

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from web.http import request_ids

HEADER: Final = "X-Request-ID"
_ACCEPTED: Final = re.compile(r"[\w.-]{8,64}", re.ASCII)

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def id_of(request: HttpRequest) -> str:
    """Return the id given by the client or a proxy, or a new one."""
    given = request.headers.get(HEADER, "")
    return given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex


@sync_and_async_middleware
def request_id_middleware(get_response: Sync | Async) -> Sync | Async:
    """Make the request's id available to services, and return it to the client."""

    async def answer_later(request: HttpRequest) -> HttpResponseBase:
        token = request_ids.CURRENT.set(id_of(request))
        try:
            response: HttpResponseBase = await get_response(request)  # type: ignore[misc]
            response[HEADER] = request_ids.CURRENT.get()
            return response
        finally:
            request_ids.CURRENT.reset(token)

    def answer(request: HttpRequest) -> HttpResponseBase:
        token = request_ids.CURRENT.set(id_of(request))
        try:
            response: HttpResponseBase = get_response(request)  # type: ignore[assignment]
            response[HEADER] = request_ids.CURRENT.get()
            return response
        finally:
            request_ids.CURRENT.reset(token)

    return answer_later if iscoroutinefunction(get_response) else answer


_POLICY: Final = (
    "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGES: Final = _POLICY.format(scripts="'self'")
# The admin uses Alpine, which compiles the expressions of its attributes.
ADMIN: Final = _POLICY.format(scripts="'self' 'unsafe-eval'")


class SecurityHeaders:
    """Middleware that adds a policy to HTML responses without one, and HSTS to all responses."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        seconds = settings.ROLLDECK_HSTS_SECONDS if settings.SESSION_COOKIE_SECURE else 0
        self._transport = f"max-age={seconds}" if seconds else ""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add the headers to the response."""
        response = self._get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            is_admin = request.path.startswith("/admin/")
            response.headers.setdefault("Content-Security-Policy", ADMIN if is_admin else PAGES)
        if self._transport:
            response.headers["Strict-Transport-Security"] = self._transport
        return response
