"""Assign every request an id, which links its log lines and events."""

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from asgiref.sync import iscoroutinefunction
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
