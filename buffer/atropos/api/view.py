"""Base view of the Atropos routes: finds the run and formats errors as FastAPI does."""

from functools import partial
from typing import Any, ClassVar, Final

import msgspec
from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import APIException

from buffer.atropos import schemas as messages
from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.services.idempotency import KeyReused
from buffer.items.api import AnyAccept, AtroposCallers
from runs.access.api.authentication import TokenAuthentication
from runs.access.rules import ADMINISTER, Rule
from runs.lifecycle.api.runs import ErrorForms
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound, run_named
from runs.lifecycle.services.registry import default_run
from web import outages
from web.http.views import ApiView
from web.rules.errors import ApiError, TooManyRequests

RUN_OVER: Final = {409: messages.Detail}
PUSH_REFUSED: Final = {
    400: messages.Detail,
    409: messages.Detail,
    422: messages.HTTPValidationError,
    507: messages.Detail,
}


atropos_schema = partial(extend_schema, tags=["atropos"])


class AtroposView(ApiView):
    """Base of the Atropos routes; without a run in the URL, they serve the default run."""

    authentication_classes = [TokenAuthentication]
    permission_classes = [AtroposCallers]
    serves_machines = ignores_cookies = True
    rule: ClassVar[Rule] = ADMINISTER
    """Permission that the route requires of a token."""
    content_negotiation_class = AnyAccept
    error_forms = ErrorForms(
        default=("application/json", messages.Detail),
        invalid=("application/json", messages.HTTPValidationError),
        invalid_status=422,
    )
    is_open_locally = True
    refuses_unknown_parameters = False  # the reference server ignores them
    summary_suffixes: ClassVar[dict[str, str]] = {"/atropos/": "", "/": " (default run)"}

    _found: Run | None = None

    def find_run(self) -> Run:
        """Return the run of the URL, read once per request.

        Raises:
            RunNotFound: If it does not exist or takes no trajectory groups.
        """
        if self._found is None:
            name = self.kwargs.get("run")
            if name is None:
                run = default_run(now=timezone.now())
            else:
                run = run_named(name)
                if not run.takes_groups:
                    raise RunNotFound(f"{name} takes no trajectory groups")
            self._found = run
        return self._found

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        if isinstance(exc, InvalidBody):
            return json_response({"detail": exc.problems}, status=422)
        if outages.is_outage(exc):
            return unavailable()
        if isinstance(exc, ApiError) and not isinstance(exc, BadRequest):
            # Atropos' clients know a full queue as 503.
            status = 503 if isinstance(exc, TooManyRequests) else exc.status
        elif isinstance(exc, APIException):
            status = exc.status_code
        else:  # limits of bodies have one format on all routes
            return super().handle_exception(exc)
        response = json_response({"detail": _detail(exc, status)}, status=status)
        if status == 401:
            response["WWW-Authenticate"] = self.get_authenticate_header(self.request) or "Bearer"
        wait = getattr(exc, "retry_after_seconds", None)
        if wait is not None:
            response["Retry-After"] = str(wait)
        return response


def _detail(error: Exception, status: int) -> str | list[dict[str, Any]]:
    """Return the error as FastAPI does: a list of locations for 422, else a text."""
    if status != 422:
        return str(error)
    field = getattr(error, "field", "")
    place = "header" if field == KeyReused.field else "body"
    kind = getattr(error, "code", "invalid")
    return [{"type": kind, "loc": [place, *filter(None, [field])], "msg": str(error)}]


def unavailable() -> HttpResponse:
    """Return the 503 answer for a request that failed because of an outage."""
    response = json_response({"detail": outages.DETAIL}, status=503)
    response["Retry-After"] = str(outages.RETRY_AFTER_SECONDS)
    return response


def json_response(content: Any, *, status: int = 200) -> HttpResponse:
    """Return `content`, encoded by msgspec, as a JSON response."""
    return HttpResponse(
        msgspec.json.encode(content), status=status, content_type="application/json"
    )
