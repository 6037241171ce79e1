"""Record on the request which environments a refused push named."""

from django.http import HttpRequest
from rest_framework.request import Request

from runs.access.rules.call_digest import RefusedPush

_ATTRIBUTE = "rolldeck_refused_push"


def note_refused_push(request: Request, push: RefusedPush) -> None:
    """Count a refusal with the call."""
    setattr(request._request, _ATTRIBUTE, push)  # noqa: SLF001 the middleware sees Django's request


def refused_push_of(request: HttpRequest) -> RefusedPush | None:
    """Return the refused push of a request, or None."""
    return getattr(request, _ATTRIBUTE, None)
