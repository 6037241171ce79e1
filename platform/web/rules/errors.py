"""Base classes of the errors that a request can raise.

An error class sets the status, code and title of its response. `docs/reference/errors.md` lists
all codes.
"""

from collections.abc import Sequence
from typing import ClassVar


class ApiError(Exception):
    """An error with its response; its text is the `detail`."""

    status: ClassVar[int]
    """HTTP status."""
    code: ClassVar[str]
    """Stable code for programs; each code has one status."""
    title: ClassVar[str]
    """Short text for people."""
    inside: ClassVar[str] = ""
    """Request field that contains `field`."""
    field: str | None = None
    """Path of the invalid field, or None if the error concerns no single field."""
    message: str | None = None
    """Description of the invalid field; None means the text of the error."""
    start: int | None = None
    """First invalid character in the field, from 0."""
    end: int | None = None
    """End of the invalid characters, exclusive."""
    retry_after_seconds: int | None = None
    """Time after which a retry may succeed, or None."""
    others: "Sequence[FieldError]" = ()
    """Errors of further fields of the same request."""


class FieldError(ApiError):
    """An error of one field of the request."""

    field: str
    message: str

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Invalid(ApiError, ValueError):
    """A parameter or the body is invalid."""

    status = 400
    code = "invalid"
    title = "Invalid request"


class InvalidField(FieldError, Invalid):
    """A field of the request is invalid."""


class NotAuthenticated(ApiError):
    """Credentials are missing, invalid or expired."""

    status = 401
    code = "not_authenticated"
    title = "Not signed in"


class Forbidden(ApiError):
    """The caller lacks the permission."""

    status = 403
    code = "forbidden"
    title = "Not allowed"


class NotFound(ApiError, LookupError):
    """The object does not exist."""

    status = 404
    code = "not_found"
    title = "Not found"


class MethodNotAllowed(ApiError):
    """The route does not support the method."""

    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"


class NotAcceptable(ApiError):
    """The route has no representation that the client accepts."""

    status = 406
    code = "not_acceptable"
    title = "No such representation"


class Conflict(ApiError):
    """The state of the object does not allow the request; each subclass has its own code."""

    status = 409


class TooLarge(ApiError):
    """The content exceeds a limit."""

    status = 413
    code = "too_large"
    title = "Too large"


class UnsupportedMediaType(ApiError):
    """The route does not accept the content type."""

    status = 415
    code = "unsupported_media_type"
    title = "Unknown media type"


class InvalidData(ApiError, ValueError):
    """The content is inconsistent or damaged."""

    status = 422
    code = "invalid_data"
    title = "Invalid data"


class TooManyRequests(ApiError):
    """A limit on requests is reached."""

    status = 429
    code = "too_many_requests"
    title = "Too many requests"


class Internal(ApiError):
    """The server failed; its log has the reason."""

    status = 500
    code = "internal"
    title = "Internal error"


class Unavailable(ApiError):
    """The service is temporarily unavailable."""

    status = 503
    code = "unavailable"
    title = "Service unavailable"
