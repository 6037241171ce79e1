"""Permissions and streamed answers of routes of items."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpResponse, StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer.items.queries import server_limits
from buffer.items.rules.limits import MAX_TOKEN_ID
from buffer.items.schemas import LimitsAnswer
from runs.access.api.identity import caller_of
from runs.access.api.permissions import Known
from runs.access.rules import READ, Rule, act_as, is_loopback
from runs.lifecycle.services.lifecycle import DEFAULT_RUN_NAME
from web.http.bodies import answer
from web.http.views import ApiView

# Permissions of the Atropos routes, whose clients may send no token.

# Headers that reverse proxies, load balancers and CDNs add, in lower case.
PROXY_HEADERS: Final = frozenset(
    {
        *("forwarded", "via", "cdn-loop", "client-ip", "true-client-ip", "fastly-client-ip"),
        *("x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-proxyuser-ip", "x-forwarded"),
        *("x-amzn-trace-id", "fly-client-ip", "x-vercel-id", "tailscale-user-login"),
    }
)
PROXY_PREFIXES: Final = ("x-forwarded-", "x-original-", "x-envoy-", "x-azure-", "cf-")
# By default nginx speaks HTTP/1.0 to its upstream and adds no header.
OLD_VERSIONS: Final = frozenset({"0.9", "1.0"})


def is_open_to(request: Request) -> bool:
    """Return whether the request needs no credentials: open mode and a client on this machine.

    Behind a proxy every client looks local, and a web page can make a browser send requests.
    Requests with signs of either are refused. Some proxies leave no sign: a server behind a
    proxy needs ROLLDECK_AUTH=required.
    """
    return (
        settings.ROLLDECK_AUTH == "open"
        and is_loopback(request.META.get("REMOTE_ADDR", ""))
        and is_loopback(urlsplit(f"//{request.get_host()}").hostname or "")
        and not _is_proxied(request)
        and _is_of_own_page_or_of_none(request)
    )


def _is_proxied(request: Request) -> bool:
    scope = getattr(request._request, "scope", {})  # noqa: SLF001 only ASGI knows the version
    if scope.get("http_version") in OLD_VERSIONS:
        return True
    # Django leaves out names with underscores, which some proxies write.
    raw = (name.decode("latin-1") for name, _ in scope.get("headers", ()))
    names = (name.lower().replace("_", "-") for name in (*request.headers, *raw))
    return any(name in PROXY_HEADERS or name.startswith(PROXY_PREFIXES) for name in names)


def _is_of_own_page_or_of_none(request: Request) -> bool:
    """Return whether the sender is not a browser, or is a page of this server."""
    if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        return False
    own = f"{request.scheme}://{request.get_host()}"
    if request.headers.get("Origin", own) != own:
        return False
    # Browsers without the headers above send it with images and links of foreign pages.
    referer = urlsplit(request.headers.get("Referer", own))
    return f"{referer.scheme}://{referer.netloc}" == own


ENVIRONMENTS: Final = act_as("env")
TRAINERS: Final = act_as("trainer")
# Run status, polled by environments and trainers.
EITHER: Final = READ | ENVIRONMENTS | TRAINERS
TRAINERS_AND_READERS: Final = READ | TRAINERS


class AtroposCallers(BasePermission):
    """Allows tokens that pass the view's rule and, in open mode, every local client."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if is_open_to(request):
            return True
        rule: Rule = view.rule  # type: ignore[attr-defined] # of an AtroposView
        caller, run = caller_of(request), str(view.kwargs.get("run", DEFAULT_RUN_NAME))
        if rule.allows(caller, run=run):
            return True
        self.message = rule.refusal(caller, run=run)
        return False


class AnyAccept(BaseContentNegotiation):
    """Always negotiates JSON, as Atropos does."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


# API view of the server's limits.


class LimitsView(ApiView):
    """The limits of this server."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="limits_get",
        responses={200: LimitsAnswer},
        tags=["server"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List limits.

        Maximum sizes and counts; errors refer to them by the same names.
        """
        bounds = {f"max_{name}": bound for name, bound in asdict(server_limits()).items()}
        return answer(
            LimitsAnswer(
                **bounds,
                min_free_disk_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
                max_token_id=MAX_TOKEN_ID,
            )
        )


# Stream generated files part by part in bounded memory.


class _LoopParts:
    """Asynchronous iterator over parts; ASGI would collect a plain iterator in memory."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def _next(self) -> bytes | None:
        try:
            return next(self._parts, None)
        finally:
            # The next part may be generated in another thread with its own connection.
            connections.close_all()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(self._next)) is not None:
            yield part


def streamed(
    request: Request, parts: Iterator[bytes], *, content_type: str, filename: str
) -> StreamingHttpResponse:
    """Return a file download whose parts are generated on demand."""
    is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 the only way to it
    return StreamingHttpResponse(
        _LoopParts(parts) if is_async else parts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{filename}"',
            "Cache-Control": "private, no-store",
        },
    )
