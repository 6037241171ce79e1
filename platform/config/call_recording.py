"""Record API calls of machines with their outcome, for the diagnosis of client errors."""

import time
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from buffer.atropos.urls import NAMES as ATROPOS_NAMES
from runs.access.api.refusals import refused_push_of
from runs.access.models.tokens import ApiToken
from runs.access.rules.call_digest import Call
from runs.access.services.calls import keep_calls
from runs.access.services.recent_calls import book
from runs.lifecycle.services.refused_pushes import count_refused_pushes

# Longer error responses are cut off.
CONTENT_BYTES: Final = 16_384


class CallRecording:
    """Middleware that records the calls of machines.

    Requests from the dashboard are not recorded: run events cover changes made there. Requests
    that wait for a batch are recorded when they begin to wait.
    """

    def __init__(
        self,
        get_response: Callable[[HttpRequest], Any],
        *,
        add: Callable[[Call], None] | None = None,
    ) -> None:
        self._get_response = get_response
        self._add = add or (_add if settings.ROLLDECK_RECORDED_CALLS else None)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Process the request and record the response, in a thread: it looks up the caller."""
        began = time.perf_counter()
        response: HttpResponseBase = self._get_response(request)
        self._note(request, response, began)
        return response

    def _note(self, request: HttpRequest, response: HttpResponseBase, began: float) -> None:
        match, status = request.resolver_match, response.status_code
        route = match.route if match else ""
        client = _client(request, route, is_refused=status >= 400)
        if self._add is None or not client:
            return
        self._add(
            Call(
                client=client,
                at=time.time(),
                method=request.method or "",
                path=request.path,
                route=route,
                status=status,
                duration_ms=(time.perf_counter() - began) * 1e3,
                replayed="Idempotent-Replayed" in response.headers,
                content=_refusal(response),
                refused_push=refused_push_of(request),
            )
        )


def _client(request: HttpRequest, route: str, *, is_refused: bool) -> str:
    """Return the calling machine, or "" for people and their pages."""
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        return f"token:{token.pk}"
    if getattr(getattr(request, "user", None), "is_authenticated", False):
        return ""
    is_machine = route in ATROPOS_NAMES or route.startswith("atropos/")
    if is_machine or (is_refused and route.startswith("api/")):
        return f"address:{request.META.get('REMOTE_ADDR', '')}"
    return ""


def _refusal(response: HttpResponseBase) -> bytes:
    if response.status_code < 400 or not isinstance(response, HttpResponse):
        return b""
    return response.content[:CONTENT_BYTES]


def _add(call: Call) -> None:
    book(_keep).add(call)


def _keep(calls: list[Call]) -> None:
    try:
        with transaction.atomic():
            keep_calls(calls, kept_of_each=settings.ROLLDECK_RECORDED_CALLS)
            count_refused_pushes(calls)
    finally:
        connection.close()  # the thread sleeps for seconds and must not hold one
