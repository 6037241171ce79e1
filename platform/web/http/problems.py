"""Error responses: problem details (RFC 9457)."""

from collections.abc import Mapping
from typing import Final

import msgspec
from django.http import HttpResponse
from msgspec import Struct

from web.rules.errors import ApiError

PROBLEM_TYPE: Final = "application/problem+json"
ERROR_PAGE: Final = "/docs/errors"
"""Path of the page that lists all codes."""


class FieldProblem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An invalid field of a request, with its position in the text if known."""

    field: str
    message: str
    start: int | None = None
    end: int | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """An error response: problem details (RFC 9457) with a stable code."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = []


def problem_of(error: ApiError) -> Problem:
    """Return the problem details of an error."""
    return Problem(
        type=f"{ERROR_PAGE}#{error.code}",
        title=error.title,
        status=error.status,
        code=error.code,
        detail=f"{1 + len(error.others)} invalid fields" if error.others else str(error),
        errors=[
            FieldProblem(
                field=".".join(part for part in (each.inside, each.field) if part),
                message=str(each) if each.message is None else each.message,
                start=each.start,
                end=each.end,
            )
            for each in (error, *error.others)
            if each.field is not None
        ],
    )


def headers_of(error: ApiError) -> dict[str, str]:
    """Return the headers of an error response: its media type, and `Retry-After` if known."""
    wait = error.retry_after_seconds
    return {"Content-Type": PROBLEM_TYPE} | ({"Retry-After": str(wait)} if wait else {})


def respond(error: ApiError, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return the response to an error."""
    return HttpResponse(
        msgspec.json.encode(problem_of(error)),
        status=error.status,
        headers=headers_of(error) | dict(headers or {}),
    )
