"""Query parameters of list requests: `cursor` and `limit`."""

from typing import Final, TypeVar

from django.utils.crypto import salted_hmac
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from web.http.bodies import whole_number
from web.http.openapi import between
from web.rules import pages
from web.rules.pages import PageRequest

P = TypeVar("P")
_OF_PAGE: Final = frozenset({"cursor", "limit"})


def page_parameters(*, default: int, most: int) -> list[OpenApiParameter]:
    """Return the OpenAPI parameters of a list with pages."""
    limit = between(1, most) | {"default": default}
    meaning = f"Maximum number of results: 1 to {most}, default {default}."
    return [
        OpenApiParameter(
            "cursor",
            OpenApiTypes.STR,
            description="`next` of the previous page, with the same filters. Default: first page.",
        ),
        OpenApiParameter("limit", limit, description=meaning),
    ]


def page_of(
    request: Request, kind: type[P], *, default: int, most: int, path: str = ""
) -> PageRequest[P]:
    """Return the page that a request asks for.

    Args:
        request: The request of a list.
        kind: Type of the list's positions.
        default: Number of rows without `limit`.
        most: Maximum of `limit`.
        path: Path of the list, for a request of another route that answers with it.

    Raises:
        InvalidBody: If `limit` is not an integer from 1 to `most`.
        InvalidPageCursor: If `cursor` is not a cursor of this list with these filters.
    """
    limit = whole_number(request, "limit", default=default, at_least=1, at_most=most)
    cursor = request.query_params.get("cursor", "")
    # The key signs the cursors of a list with its filters.
    filters = sorted(
        (name, value)
        for name, values in request.query_params.lists()
        for value in values
        if name not in _OF_PAGE and value
    )
    text = f"{path or request.path_info}?{filters}"
    key = salted_hmac(__name__, text, algorithm="sha256").digest()
    after = pages.decode(cursor, kind, key=key) if cursor else None
    return PageRequest(limit=limit or default, after=after, key=key)
