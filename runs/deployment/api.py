"""API view of the announcement to all users."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Known, Operators
from runs.deployment import queries
from runs.deployment.schemas import NoticeAnswer, SetNotice
from runs.deployment.services import clear_notice, set_notice
from web.http import bodies
from web.http.openapi import REASON
from web.http.views import ApiView


class NoticeView(ApiView):
    """The announcement shown on every page."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: all known callers read it, operators change it."""
        return [Known() if self.request.method == "GET" else Operators()]

    @extend_schema(operation_id="notice_get", responses={200: NoticeAnswer}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """Get the announcement."""
        del request
        return _now()

    @extend_schema(
        operation_id="notice_set", request=SetNotice, responses={200: NoticeAnswer}, tags=["server"]
    )
    def put(self, request: Request) -> HttpResponse:
        """Post an announcement.

        Replaces the current one.
        """
        body, now = bodies.read(request, SetNotice), timezone.now()
        if body.until is not None and body.until <= now:
            raise bodies.InvalidBody("until", "must be in the future")
        set_notice(body=body, actor=identity_of(request), now=now)
        return _now()

    @extend_schema(
        operation_id="notice_clear",
        parameters=[REASON],
        responses={200: NoticeAnswer},
        tags=["server"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """Remove the announcement."""
        reason = str(request.query_params.get("reason", ""))[:2000]
        clear_notice(reason=reason, actor=identity_of(request), now=timezone.now())
        return _now()


def _now() -> HttpResponse:
    return bodies.answer(NoticeAnswer(notice=queries.notice(now=timezone.now())))
