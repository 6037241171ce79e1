"""Parsing of query parameters."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from rollouts.control.rules import ROWS_AT_MOST
from web.http import bodies
from web.http.openapi import between
from web.http.paging import page_of, page_parameters
from web.rules.pages import PageRequest

_LONGEST_ID: Final = 2**63 - 1

SERIES_PARAMETERS: Final = [
    OpenApiParameter(
        "after_id", between(0, _LONGEST_ID), description="Only rows with a higher id."
    ),
    *page_parameters(default=500, most=ROWS_AT_MOST),
]


def series_page(request: Request) -> tuple[int | None, PageRequest[int]]:
    """Return the query's `after_id`, if it has one, and the page that it asks for.

    Raises:
        InvalidBody: If a number is out of range.
        InvalidPageCursor: If `cursor` is not a cursor of this list.
    """
    after_id = bodies.whole_number(
        request, "after_id", default=None, at_least=0, at_most=_LONGEST_ID
    )
    return after_id, page_of(request, int, default=500, most=ROWS_AT_MOST)


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
