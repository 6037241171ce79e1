"""Decide who may use the Atropos routes, whose clients send no token."""

from ipaddress import ip_address
from typing import Any

from django.conf import settings
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs.api.identity import caller_of
from runs.core import rights
from runs.services.lifecycle import DEFAULT_RUN_NAME


def is_open_to(request: Request) -> bool:
    """Return whether the request needs no credentials: open mode, and from this machine.

    A proxy would make everybody look local, and a web page could make a browser ask; neither
    of the two counts.
    """
    if settings.ROLLDECK_AUTH != "open" or "X-Forwarded-For" in request.headers:
        return False
    if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _run_of(view: APIView) -> str:
    return str(view.kwargs.get("run", DEFAULT_RUN_NAME))


class AtroposCallers(BasePermission):
    """Environments and trainers of the run; in open mode everybody on this machine."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return whether the caller may push and pull."""
        caller, run = caller_of(request), _run_of(view)
        return is_open_to(request) or any(
            rights.may_act_as(caller, scope, run=run) for scope in ("env", "trainer")
        )


class ResetCallers(BasePermission):
    """Administrators of the run; in open mode everybody on this machine."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return whether the caller may begin the run anew."""
        return is_open_to(request) or rights.may_administer(caller_of(request), run=_run_of(view))


class AnyAccept(BaseContentNegotiation):
    """Answer JSON whatever the client accepts, as Atropos does."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return the only parser."""
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        """Return the only renderer."""
        return renderers[0], renderers[0].media_type
