"""Exceptions for the platform's refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class FieldError:
    """One rejected field of a request."""

    field: str
    message: str


class RolldeckError(Exception):
    """The platform refused a call, or could not be reached.

    Attributes:
        status: HTTP status of the response; 0 if there was none.
        code: Stable code of the reason, such as ``lease_lost``.
        detail: Human-readable explanation.
        errors: The rejected fields, if any are named.
    """

    def __init__(
        self, *, status: int, code: str, detail: str, errors: tuple[FieldError, ...] = ()
    ) -> None:
        fields = "; ".join(f"{error.field}: {error.message}" for error in errors)
        text = detail if not fields or fields in detail else f"{detail} ({fields})"
        super().__init__(f"{text} [{status} {code}]" if status else f"{text} [{code}]")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors


class UnreachableError(RolldeckError):
    """No response arrived within the time allowed by the caller."""


class InvalidAnswerError(RolldeckError):
    """The response violates the API: the server is probably not Rolldeck."""


class NotAuthenticatedError(RolldeckError):
    """The token is missing, unknown, expired or revoked."""


class NotAllowedError(RolldeckError):
    """The token's scopes or its run do not allow the call."""


class NotFoundError(RolldeckError):
    """No run, batch or version of that name exists."""


class InvalidRequestError(RolldeckError):
    """The platform rejected a field, named in `errors`; nothing was stored."""


class ConflictError(RolldeckError):
    """The request conflicts with the state of the run."""


class LeaseLostError(ConflictError):
    """The batch has been leased again since; this holder's acknowledgement is void."""


class OutOfOrderError(ConflictError):
    """The trainer still holds a batch that it received earlier."""


class MoveNotAllowedError(ConflictError):
    """The run's status does not permit the verb."""


class TrainerNotRegisteredError(ConflictError):
    """The trainer must register before it leases batches."""


class RunNotAcceptingError(ConflictError):
    """The run accepts no data in its present status."""


class RunOverError(ConflictError):
    """The run has ended, so it cannot be joined."""


class VersionNotNewerError(ConflictError):
    """The run already has this step with other content, or a later step."""


class StaleEpochError(ConflictError):
    """A newer training session has taken over the run."""


class ManifestMismatchError(InvalidRequestError):
    """Published weights do not match their manifest."""


class TooBusyError(RolldeckError):
    """The platform asked for a longer wait than the caller allowed."""


class InvalidMessageError(ValueError):
    """A message violates its schema; the text names the field."""


HOW_TO_SIGN_IN: Final = "give a valid token: set ROLLDECK_TOKEN, or use --token or token="
BY_CODE: Final[dict[str, type[RolldeckError]]] = {
    "lease_lost": LeaseLostError,
    "out_of_order": OutOfOrderError,
    "move_not_allowed": MoveNotAllowedError,
    "trainer_not_registered": TrainerNotRegisteredError,
    "run_not_accepting": RunNotAcceptingError,
    "run_over": RunOverError,
    "version_not_newer": VersionNotNewerError,
    "stale_epoch": StaleEpochError,
    "manifest_mismatch": ManifestMismatchError,
}
BY_STATUS: Final[dict[int, type[RolldeckError]]] = {
    400: InvalidRequestError,
    401: NotAuthenticatedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    429: TooBusyError,
    503: TooBusyError,
}


def error_of(status: int, body: object) -> RolldeckError:
    """Return the exception for an error response.

    Args:
        status: HTTP status, 400 or higher.
        body: Decoded JSON: problem details, the Atropos routes' ``{"detail": …}``, or any value.
    """
    problem: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    code = str(problem.get("code") or f"http_{status}")
    detail = problem.get("detail")
    listed = problem.get("errors") or detail
    rows = listed if isinstance(listed, list) else []
    errors = tuple(
        FieldError(
            field=str(row.get("field") or ".".join(str(part) for part in row.get("loc", []))),
            message=str(row.get("message") or row.get("msg") or ""),
        )
        for row in rows
        if isinstance(row, Mapping)
    )
    text = detail if isinstance(detail, str) else str(problem.get("title") or f"HTTP {status}")
    if status == 401:
        text = f"{text.rstrip('.')}: {HOW_TO_SIGN_IN}"
    kind = BY_CODE.get(code) or BY_STATUS.get(status, RolldeckError)
    return kind(status=status, code=code, detail=text, errors=errors)
