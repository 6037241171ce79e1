"""Let operators tell everybody something."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import services
from runs.api import bodies
from runs.api.identity import identity_of
from runs.api.openapi import problems
from runs.api.permissions import Known, Operators
from runs.selectors import deck
from runs.wire.deck import NoticeAnswer, NoticeWanted


class NoticeView(APIView):
    """What everybody is told, on every page."""

    def get_permissions(self) -> list[BasePermission]:
        """Return who may read it, and who may change it."""
        return [Known() if self.request.method == "GET" else Operators()]

    @extend_schema(
        operation_id="notice_show",
        responses={200: NoticeAnswer, **problems(401, 403)},
        tags=["deck"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Show what everybody is told at present."""
        del request
        return _now()

    @extend_schema(
        operation_id="notice_set",
        request=NoticeWanted,
        responses={200: NoticeAnswer, **problems(400, 401, 403)},
        tags=["deck"],
    )
    def put(self, request: Request) -> HttpResponse:
        """Tell everybody something, in place of what was told before."""
        wanted, now = bodies.read(request, NoticeWanted), timezone.now()
        if wanted.until is not None and wanted.until <= now:
            raise bodies.InvalidBody("until", "this time has passed")
        services.set_notice(wanted=wanted, actor=identity_of(request), now=now)
        return _now()

    @extend_schema(
        operation_id="notice_clear",
        parameters=[OpenApiParameter("reason", str, description="Kept in the audit.")],
        responses={200: NoticeAnswer, **problems(401, 403)},
        tags=["deck"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """Tell everybody nothing more."""
        reason = str(request.query_params.get("reason", ""))[:2000]
        services.clear_notice(reason=reason, actor=identity_of(request), now=timezone.now())
        return _now()


def _now() -> HttpResponse:
    return bodies.answer(NoticeAnswer(notice=deck.notice(now=timezone.now())))
