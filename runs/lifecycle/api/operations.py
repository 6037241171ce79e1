"""OpenAPI operations: summaries, statuses and path parameters derived from the views."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, ClassVar, Final

from drf_spectacular.openapi import AutoSchema
from msgspec import Struct
from rest_framework.authentication import SessionAuthentication

from runs.access.api.permissions import Anyone, Known
from web.http.problems import PROBLEM_TYPE, Problem

READS: Final = ("GET", "HEAD")
BODY_STATUSES: Final = (408, 413, 415)
"""Answers to a body that stops arriving, is too large or has an unknown encoding."""
DESCRIPTIONS: Final = {
    "200": "Success.",
    "201": "Created.",
    "202": "Accepted; the work is done in the background.",
    "204": "Success without content.",
    "206": "The requested range of bytes.",
    "400": "A parameter or the body is invalid.",
    "401": "Credentials are missing, invalid or expired.",
    "403": "The caller lacks the permission, or the CSRF token is missing.",
    "404": "The object does not exist.",
    "408": "The body stopped arriving.",
    "409": "The state of the object does not allow this.",
    "410": "The payload has expired or is lost.",
    "411": "Content-Length is missing.",
    "413": "The body is too large.",
    "415": "The media type or Content-Encoding is not supported.",
    "416": "The requested range is outside the file.",
    "422": "The content is invalid.",
    "429": "Too many requests; retry after the time in Retry-After.",
    "501": "The server lacks an optional package.",
    "503": "Temporarily unavailable; retry after the time in Retry-After.",
    "507": "The disk is nearly full.",
}
ErrorForm = tuple[str, type[Struct]]


class ErrorForms(Struct, frozen=True, kw_only=True):
    """Media type and message of a view's errors."""

    default: ErrorForm = (PROBLEM_TYPE, Problem)
    invalid: ErrorForm = (PROBLEM_TYPE, Problem)
    invalid_status: int = 400
    """Status of a request whose parameters or body are invalid."""


class OperationSchema(AutoSchema):
    """OpenAPI description of one operation.

    The first line of the method's docstring is the summary, the rest the description. Statuses
    that follow from permissions, parameters and the body are derived; a view lists the errors of
    its domain only, with `problems`.
    """

    forms: ClassVar[ErrorForms] = ErrorForms()

    def get_summary(self) -> str:
        """Return the first line of the docstring without its full stop."""
        summary = self._docstring().partition("\n")[0].rstrip(".")
        # Two paths may lead to one view; the suffix keeps their summaries apart.
        suffix: dict[str, str] = getattr(self.view, "summary_suffixes", {})
        return summary + next((text for at, text in suffix.items() if self.path.startswith(at)), "")

    def get_description(self) -> str:  # type: ignore[override] # as spectacular has it
        """Return the docstring below its first line, without its list of exceptions."""
        return self._docstring().partition("\n")[2].partition("Raises:")[0].strip()

    def get_auth(self) -> list[dict[str, Any]]:
        """Return the accepted credentials; none is one of them where a view is open."""
        accepted: list[dict[str, Any]] = super().get_auth()
        is_open = self._permissions() <= {Anyone} or getattr(self.view, "is_open_locally", False)
        return [*accepted, {}] if accepted and is_open else accepted

    def _docstring(self) -> str:
        method = getattr(self.view, self.method.lower())
        return cleandoc(method.__doc__ or type(self.view).__doc__ or "")

    def _permissions(self) -> set[type]:
        return {type(permission) for permission in self.view.get_permissions()}

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        """Add the derived statuses to those that the view lists."""
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, (media_type, message) in self._derived_errors():
            code = str(status)
            if code not in bodies:
                bodies[code] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                    message, code, [media_type], direction
                )
        for code, answer in bodies.items():
            answer["description"] = DESCRIPTIONS.get(code, "")
        return dict(sorted(bodies.items()))

    def _derived_errors(self) -> Iterator[tuple[int, ErrorForm]]:
        forms: ErrorForms = getattr(self.view, "error_forms", self.forms)
        has_body = self._get_request_body() is not None  # type: ignore[no-untyped-call]
        parameters = self._get_parameters()
        places = {parameter["in"] for parameter in parameters}
        names = {parameter["name"] for parameter in parameters}
        checks_query = getattr(self.view, "refuses_unknown_parameters", False)
        if checks_query or has_body or "query" in places or "Idempotency-Key" in names:
            yield forms.invalid_status, forms.invalid
        for status in BODY_STATUSES if has_body else ():
            # Answered before the request reaches the view.
            yield status, ErrorForms().default
        if "path" in places:
            yield 404, forms.default
        for status in self._refusals():
            yield status, forms.default

    def _refusals(self) -> Iterator[int]:
        """Yield the statuses that follow from credentials and the database behind them."""
        authenticators = self.view.get_authenticators()
        if not authenticators:
            return
        yield 503
        sessions = [isinstance(one, SessionAuthentication) for one in authenticators]
        if not all(sessions) or self._permissions() - {Anyone}:
            yield 401
        if self._permissions() - {Anyone, Known} or (any(sessions) and self.method not in READS):
            yield 403
