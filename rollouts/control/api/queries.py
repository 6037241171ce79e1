"""Parsing of query parameters."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from rollouts.control.rules.pages import ROWS_AT_MOST
from web.http import bodies
from web.http.openapi import between

_LONGEST_ID: Final = 2**63 - 1

AFTER: Final = OpenApiParameter(
    "after", between(0, _LONGEST_ID), description="Only rows with a higher id, oldest first."
)
LIMIT: Final = OpenApiParameter(
    "limit",
    between(1, ROWS_AT_MOST),
    description=f"Maximum number of rows: 1 to {ROWS_AT_MOST}, default 500.",
)


def page_of(request: Request) -> tuple[int | None, int]:
    """Return the query's `after`, if it has one, and its `limit`.

    Raises:
        InvalidBody: If one of them is out of range.
    """
    after = bodies.whole_number(request, "after", default=None, at_least=0, at_most=_LONGEST_ID)
    limit = bodies.whole_number(request, "limit", default=500, at_least=1, at_most=ROWS_AT_MOST)
    return after, limit or 1


def wait_of(request: Request, *, default: float, at_most: int) -> float:
    """Return the query's `wait` in seconds.

    Raises:
        InvalidBody: If it is not a number from 0 to `at_most`.
    """
    try:
        seconds = float(request.query_params.get("wait", default))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= at_most:
        raise bodies.InvalidBody("wait", f"must be a number from 0 to {at_most}")
    return seconds
