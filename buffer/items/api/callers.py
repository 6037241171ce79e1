"""Permissions of the Atropos routes, whose clients may send no token."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs.access.api.identity import caller_of
from runs.access.rules.networks import is_loopback
from runs.access.rules.rights import READ, Rule, act_as
from runs.lifecycle.services.lifecycle import DEFAULT_RUN_NAME

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


def _run_of(view: APIView) -> str:
    return str(view.kwargs.get("run", DEFAULT_RUN_NAME))


class AtroposCallers(BasePermission):
    """Allows tokens that pass the view's rule and, in open mode, every local client."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return whether the caller may use the route."""
        if is_open_to(request):
            return True
        rule: Rule = view.rule  # type: ignore[attr-defined] # of an AtroposView
        caller, run = caller_of(request), _run_of(view)
        if rule.allows(caller, run=run):
            return True
        self.message = rule.refusal(caller, run=run)
        return False


class AnyAccept(BaseContentNegotiation):
    """Always negotiates JSON, as Atropos does."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return the only parser."""
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        """Return the only renderer."""
        return renderers[0], renderers[0].media_type
