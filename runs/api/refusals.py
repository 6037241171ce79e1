"""Hand on, beside the answer, which environments a refused push was of."""

from django.http import HttpRequest
from rest_framework.request import Request

from runs.core.call_digest import RefusedPush

_ATTRIBUTE = "rolldeck_refused_push"


def note_refused_push(request: Request, push: RefusedPush) -> None:
    """Have it counted with the call."""
    setattr(request._request, _ATTRIBUTE, push)  # noqa: SLF001 the middleware sees that one


def refused_push_of(request: HttpRequest) -> RefusedPush | None:
    """Return what was noted of this request."""
    return getattr(request, _ATTRIBUTE, None)
