"""Refusal of query parameters that an operation does not have, such as ``?limt=5``."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.views import APIView

from web.http.bodies import InvalidBody

_SHOWN: Final = 60


def check_names(request: Request, view: APIView) -> None:
    """Check that the operation has each parameter of the query, as its OpenAPI description says.

    Raises:
        InvalidBody: With the names that it has; names the first unknown parameter.
    """
    handler = getattr(view, str(request.method).lower(), None)
    if not request.query_params or handler is None or request.method == "OPTIONS":
        return
    names = _declared(request, view, handler)
    unknown = next((name for name in request.query_params if name not in names), None)
    if unknown is not None:
        known = f"known: {', '.join(names)}" if names else "this request has none"
        raise InvalidBody(unknown[:_SHOWN], f"is not a query parameter of this request; {known}")


def _declared(request: Request, view: APIView, handler: Any) -> list[str]:
    """Return the names of the query parameters in the `extend_schema` of a method of the view."""
    described = getattr(handler, "kwargs", {}).get("schema")
    if described is None:
        return []
    schema = described()
    schema.view, schema.method = view, request.method
    return sorted(
        parameter.name
        for parameter in schema.get_override_parameters()
        if isinstance(parameter, OpenApiParameter) and parameter.location == OpenApiParameter.QUERY
    )
