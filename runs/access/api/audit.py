"""API views of the audit log and sessions."""

import csv
import io

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from runs.access import queries, services
from runs.access.api.identity import identity_of, person_of
from runs.access.api.permissions import Known, Readers
from runs.access.schemas import AuditList, BrowserRow, SessionRow
from web.http.bodies import InvalidBody, answer, reason_in, whole_number
from web.http.openapi import REASON, between
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.texts import plain_cell

FILTER_PARAMETERS = ("actor", "run", "kind", "request", "text", "people")
AUDIT_FILTERS = [OpenApiParameter(name) for name in FILTER_PARAMETERS]


class AuditView(ApiView):
    """The audit log."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="audit_list",
        parameters=[*AUDIT_FILTERS, *page_parameters(default=100, most=queries.AUDIT_AT_MOST)],
        responses={200: AuditList},
        tags=["audit"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List audit events.

        Events of runs and of the server, newest first.
        """
        page = page_of(request, int, default=100, most=queries.AUDIT_AT_MOST)
        found = queries.audit(filters=_filters(request), before=page.after, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda row: row.id)
        return answer(AuditList(results=rows, next=cursor))


class AuditCsvView(ApiView):
    """The audit log as CSV."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="audit_export",
        parameters=[
            *AUDIT_FILTERS,
            OpenApiParameter(
                "before", between(1, (1 << 63) - 1), description="Only rows with a smaller id."
            ),
            OpenApiParameter("limit", between(1, 500), description="1 to 500."),
        ],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=["audit"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Export audit events as CSV."""
        most = queries.AUDIT_AT_MOST
        limit = whole_number(request, "limit", default=most, at_least=1, at_most=most)
        before = whole_number(request, "before", default=None, at_least=1, at_most=(1 << 63) - 1)
        rows = queries.audit(filters=_filters(request), before=before, limit=limit or most)
        text = io.StringIO()
        names = ("at", "actor", "actor_name", "run", "kind", "message", "reason", "request_id")
        writer = csv.writer(text)
        writer.writerow(names)
        for row in rows:
            writer.writerow([_cell(getattr(row, name)) for name in names])
        headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        return HttpResponse(
            text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers
        )


class SessionsView(ApiView):
    """The sessions of a person."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="sessions_list",
        responses={200: SessionRow},
        tags=["session"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List your sessions.

        Most recent first; empty for tokens.
        """
        return answer(_browsers(request))

    @extend_schema(
        operation_id="sessions_delete_others",
        parameters=[REASON],
        request=None,
        responses={200: SessionRow},
        tags=["session"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """End your other sessions."""
        person = person_of(request)
        if person is not None:
            services.end_sessions(
                user=person,
                but=request.session.session_key,
                actor=identity_of(request),
                reason=reason_in(request),
                now=timezone.now(),
            )
        return answer(_browsers(request))


class BrowserView(ApiView):
    """One session of a person."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="sessions_delete",
        parameters=[REASON],
        responses={200: SessionRow},
        tags=["session"],
    )
    def delete(self, request: Request, browser: str) -> HttpResponse:
        """End one of your sessions."""
        person = person_of(request)
        if person is None:
            raise services.SessionNotFound("machines have no sessions")
        services.end_session(
            user=person,
            public_id=browser,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return answer(_browsers(request))


def _browsers(request: Request) -> SessionRow:
    person = person_of(request)
    found = services.sessions_of(person, now=timezone.now()) if person else []
    here = getattr(request.session, "session_key", None)
    return SessionRow(
        sessions=len(found),
        results=[
            BrowserRow(
                id=one.public_id,
                is_current=one.key == here,
                browser=one.browser,
                address=one.address,
                signed_in_at=one.signed_in_at,
                expires_at=one.expires_at,
            )
            for one in found
        ],
        next=None,
    )


def _filters(request: Request) -> dict[str, str]:
    return {name: _text_parameter(request, name) for name in FILTER_PARAMETERS}


def _text_parameter(request: Request, name: str) -> str:
    word = request.query_params.get(name, "")
    if "\x00" in word:
        raise InvalidBody(name, "must not contain the NUL character")
    return word


def _cell(value: object) -> str:
    return "" if value is None else plain_cell(str(value))
