"""Name what the platform may refuse, so that callers can tell one refusal from another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field of a request that the platform refused."""

    field: str
    message: str


class RolldeckError(Exception):
    """The platform refused a call, or could not be reached.

    Attributes:
        status: HTTP status of the answer; 0 if there was none.
        code: Stable word for the reason, such as ``lease_lost``.
        detail: Sentence for people.
        errors: The fields that were refused, if any were named.
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


class Unreachable(RolldeckError):
    """No answer came within the time that the caller allowed."""


class InvalidAnswer(RolldeckError):
    """The answer is not what the API promises: probably not a Rolldeck server."""


class NotAuthenticated(RolldeckError):
    """The token is missing, unknown, expired or revoked."""


class NotAllowed(RolldeckError):
    """The token's scopes or its run do not allow the call."""


class NotFound(RolldeckError):
    """No run, batch or version of that name exists."""


class InvalidRequest(RolldeckError):
    """The platform refused a field; `errors` names it and nothing was stored."""


class Conflict(RolldeckError):
    """What was asked does not fit the state of the run."""


class LeaseLost(Conflict):
    """The batch was leased anew in the meantime; this holder's ack does not count."""


class MoveNotAllowed(Conflict):
    """The run's status does not allow the verb."""


class TrainerNotRegistered(Conflict):
    """The trainer must register before it asks for batches."""


class RunNotAccepting(Conflict):
    """The run takes no data in its present status."""


class RunOver(Conflict):
    """The run has ended, so nobody can join it."""


class VersionNotNewer(Conflict):
    """The run has this step, with other bytes, or a later one."""


class StaleEpoch(Conflict):
    """A newer training session took over the run."""


class ManifestMismatch(InvalidRequest):
    """Published weights are not what their manifest says."""


class TooBusy(RolldeckError):
    """The platform asked to wait for longer than the caller allowed."""


HOW_TO_SIGN_IN: Final = "give a valid token: set ROLLDECK_TOKEN, or use --token or token="
BY_CODE: Final[dict[str, type[RolldeckError]]] = {
    "lease_lost": LeaseLost,
    "move_not_allowed": MoveNotAllowed,
    "trainer_not_registered": TrainerNotRegistered,
    "run_not_accepting": RunNotAccepting,
    "run_over": RunOver,
    "version_not_newer": VersionNotNewer,
    "stale_epoch": StaleEpoch,
    "manifest_mismatch": ManifestMismatch,
}
BY_STATUS: Final[dict[int, type[RolldeckError]]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    422: InvalidRequest,
    429: TooBusy,
    503: TooBusy,
}


def error_of(status: int, body: object) -> RolldeckError:
    """Return the error that an answer stands for.

    Args:
        status: HTTP status, 400 or higher.
        body: Decoded JSON: problem details, the Atropos routes' ``{"detail": …}``, or anything.
    """
    problem: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    code = str(problem.get("code") or f"http_{status}")
    detail = problem.get("detail")
    errors = tuple(_field_errors(problem))
    text = detail if isinstance(detail, str) else str(problem.get("title") or f"HTTP {status}")
    if status == 401:
        text = f"{text.rstrip('.')}: {HOW_TO_SIGN_IN}"
    kind = BY_CODE.get(code) or BY_STATUS.get(status, RolldeckError)
    return kind(status=status, code=code, detail=text, errors=errors)


def _field_errors(problem: Mapping[str, Any]) -> list[FieldError]:
    listed = problem.get("errors") or problem.get("detail")
    if not isinstance(listed, list):
        return []
    rows = [row for row in listed if isinstance(row, Mapping)]
    return [
        FieldError(
            field=str(row.get("field") or ".".join(str(part) for part in row.get("loc", []))),
            message=str(row.get("message") or row.get("msg") or ""),
        )
        for row in rows
    ]
