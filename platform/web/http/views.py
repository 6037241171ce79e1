"""Base of all API views, which checks the names of query parameters."""

from typing import Any, ClassVar, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
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
    names: list[str] = []  # of the query parameters in the `extend_schema` of the handler
    described = getattr(handler, "kwargs", {}).get("schema")
    if described is not None:
        schema = described()
        schema.view, schema.method = view, request.method
        names = sorted(
            parameter.name
            for parameter in schema.get_override_parameters()
            if isinstance(parameter, OpenApiParameter)
            and parameter.location == OpenApiParameter.QUERY
        )
    unknown = next((name for name in request.query_params if name not in names), None)
    if unknown is not None:
        known = f"known: {', '.join(names)}" if names else "this request has none"
        raise InvalidBody(unknown[:_SHOWN], f"is not a query parameter of this request; {known}")


class ApiView(APIView):
    """A view that is freed with its request and its response.

    The view, the request and the response of REST framework refer to each other. Their bodies
    stay in memory until a full garbage collection, which runs after hundreds of requests. With
    pushes of 0.6 MB, this takes 120 to 170 MB in each web process.
    """

    refuses_unknown_parameters: ClassVar[bool] = True
    """Whether a query parameter that the operation does not declare is an error."""
    serves_machines: ClassVar[bool] = False
    """Whether requests without cookies are served without session and CSRF check, with the whole
    body and response in memory (:mod:`config.machines`).
    """
    ignores_cookies: ClassVar[bool] = False
    """Whether requests with cookies are served in the same way."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the credentials, then the names of the query parameters.

        Raises:
            InvalidBody: If the operation does not have a parameter.
        """
        super().initial(request, *args, **kwargs)
        if self.refuses_unknown_parameters:
            check_names(request, self)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the response, after removing the references that form cycles."""
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        self.request.parser_context.clear()  # contains the view and the request; for parsers only
        del self.response
        self.__dict__.pop("head", None)  # Django's alias of `get`, bound to the view
        return response
