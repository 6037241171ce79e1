"""Turn exceptions in views of the API into responses."""

import logging
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from rest_framework import exceptions
from rest_framework.views import set_rollback

from web import outages
from web.http.problems import respond
from web.rules import errors
from web.rules.errors import ApiError

logger = logging.getLogger(__name__)


class BodyUnreadable(errors.Invalid):
    """The body is not in the form that its content type names."""

    field = "body"


# Errors of the frameworks; the most specific class of an exception wins.
FRAMEWORK_ERRORS: Final[dict[type[Exception], type[ApiError]]] = {
    exceptions.NotAuthenticated: errors.NotAuthenticated,
    exceptions.AuthenticationFailed: errors.NotAuthenticated,
    exceptions.PermissionDenied: errors.Forbidden,
    PermissionDenied: errors.Forbidden,
    exceptions.NotFound: errors.NotFound,
    Http404: errors.NotFound,
    exceptions.MethodNotAllowed: errors.MethodNotAllowed,
    exceptions.NotAcceptable: errors.NotAcceptable,
    exceptions.UnsupportedMediaType: errors.UnsupportedMediaType,
    exceptions.ParseError: BodyUnreadable,
}


def handle(exc: Exception, _context: dict[str, Any]) -> HttpResponse | None:
    """Return the response to `exc`, or None for an error of the program."""
    error = _api_error(exc)
    if error is None:
        return None
    set_rollback()
    authenticate = getattr(exc, "auth_header", None)
    return respond(error, headers={"WWW-Authenticate": authenticate} if authenticate else None)


def _api_error(exc: Exception) -> ApiError | None:
    if isinstance(exc, ApiError):
        return exc
    for kind in type(exc).__mro__:
        if kind in FRAMEWORK_ERRORS:
            return FRAMEWORK_ERRORS[kind](getattr(exc, "detail", exc))
    if outages.is_outage(exc):
        logger.warning("service_unavailable: %s", " ".join(str(exc).split()))
        return outages.Outage()
    return None
