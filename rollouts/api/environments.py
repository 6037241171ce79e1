"""Show every environment that the deck knows."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rollouts.selectors import environments as registry
from rollouts.wire.environments import KnownEnvironmentDetail, KnownEnvironments
from runs.api.bodies import InvalidBody, answer, whole_number
from runs.api.openapi import problems
from runs.api.permissions import Readers

LONGEST_NAME: Final = 220
ROWS_AT_MOST: Final = 100


class KnownEnvironmentsView(APIView):
    """Environments over all runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="environments_known",
        parameters=[
            OpenApiParameter("q", description="Part of the name."),
            OpenApiParameter("kind", enum=list(registry.KINDS)),
            OpenApiParameter("after", description="`next` of the page before."),
            OpenApiParameter("limit", int, description=f"1 to {ROWS_AT_MOST}; 50 if absent."),
        ],
        responses={200: KnownEnvironments, **problems(400, 401, 403)},
        tags=["environments"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List environments by name: what runs use, and what they may ask for."""
        limit = whole_number(request, "limit", default=50, at_least=1, at_most=ROWS_AT_MOST)
        return answer(
            registry.known_environments(
                registry.Asked(part=_text(request, "q"), kind=_kind(request, needed=False)),
                after=request.query_params.get("after", ""),
                limit=limit or 50,
                now=timezone.now(),
            )
        )


class KnownEnvironmentView(APIView):
    """One environment over all runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="environments_known_one",
        parameters=[
            OpenApiParameter("kind", required=True, enum=list(registry.KINDS)),
            OpenApiParameter("name", required=True, description="Its whole name."),
        ],
        responses={200: KnownEnvironmentDetail, **problems(400, 401, 403, 404)},
        tags=["environments"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Show an environment, the newest runs that use it, and what to launch it with."""
        name = _text(request, "name")
        if not name:
            raise InvalidBody("name", "says which environment")
        kind = _kind(request, needed=True)
        return answer(registry.environment_detail(kind=kind, name=name, now=timezone.now()))


def _text(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if "\x00" in text or len(text) > LONGEST_NAME:
        raise InvalidBody(name, f"must have no NUL and at most {LONGEST_NAME} characters")
    return text


def _kind(request: Request, *, needed: bool) -> str:
    kind = request.query_params.get("kind", "")
    if kind not in registry.KINDS and (needed or kind):
        raise InvalidBody("kind", f"must be one of {', '.join(registry.KINDS)}")
    return kind
