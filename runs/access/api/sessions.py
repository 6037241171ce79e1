"""API views of sessions and the audit log."""

import csv
import io

from django.contrib.auth import authenticate, logout, update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.generic import View
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request

from runs.access import queries
from runs.access.api.identity import identity_of, person_of
from runs.access.api.permissions import Anyone, Known, People, Readers
from runs.access.models import User
from runs.access.queries import session_of
from runs.access.schemas import AuditList, ChangePassword, Session, SessionCount, SignIn
from runs.access.services.login_links import LINK_LIFETIME, redeem_login_token
from runs.access.services.passwords import change_password
from runs.access.services.sessions import (
    begin_session,
    end_sessions,
    remember_browser,
    session_keys,
)
from web.http.bodies import answer, read, reason_in, text_parameter, whole_number
from web.http.openapi import REASON, between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.errors import Forbidden
from web.rules.texts import plain_cell

# Sign people in and out of the dashboard.


class LoginFailed(Forbidden):
    """The user name or the password is wrong."""

    code = "login_failed"
    title = "Sign-in failed"


@method_decorator(never_cache, name="dispatch")
class SessionView(ApiView):
    """The session of this browser."""

    authentication_classes = [SessionAuthentication]
    permission_classes = [Anyone]

    @extend_schema(operation_id="session_get", responses={200: Session}, tags=["session"])
    def get(self, request: Request) -> HttpResponse:
        """Get the current session.

        Also sets the CSRF cookie.
        """
        get_token(request._request)  # noqa: SLF001 Django needs its own request
        return answer(session_of(request.user))

    @extend_schema(
        operation_id="session_create",
        request=SignIn,
        responses={200: Session, **problems(429)},
        tags=["session"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Sign in.

        Requires the CSRF token.
        """
        # DRF checks the token only for signed-in users.
        SessionAuthentication().enforce_csrf(request)
        given = read(request, SignIn)
        django_request = request._request  # noqa: SLF001 Django needs its own request
        user = authenticate(django_request, username=given.username, password=given.password)
        if not isinstance(user, User):
            raise LoginFailed("wrong user name or password")
        begin_session(django_request, user)
        response = answer(session_of(user))
        remember_browser(response, user)
        return response

    @extend_schema(
        operation_id="session_delete", request=None, responses={200: Session}, tags=["session"]
    )
    def delete(self, request: Request) -> HttpResponse:
        """Sign out."""
        SessionAuthentication().enforce_csrf(request)
        logout(request._request)  # noqa: SLF001 Django needs its own request
        return answer(Session(authenticated=False, username="", role="anonymous"))


class PasswordView(ApiView):
    """The password of the signed-in person."""

    permission_classes = [People]

    @extend_schema(
        operation_id="password_change",
        request=ChangePassword,
        responses={200: Session, **problems(429)},
        tags=["session"],
    )
    def put(self, request: Request) -> HttpResponse:
        """Change your password.

        Ends your other sessions; tokens stay valid. Only for browsers: tokens are not accepted.
        """
        given, person = read(request, ChangePassword), person_of(request)
        if person is None:
            raise Forbidden(People.message)
        django_request = request._request  # noqa: SLF001 Django needs its own request
        change_password(
            django_request,
            person,
            current=given.current_password,
            new=given.new_password,
            actor=identity_of(request),
            now=timezone.now(),
        )
        update_session_auth_hash(django_request, person)
        return answer(session_of(person))


@method_decorator(never_cache, name="dispatch")
class OneTimeLogin(View):
    """The page of a one-time login link: GET shows a button, POST redeems the token."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the button; the page's script takes the token from the fragment."""
        return self._page(request)

    def post(self, request: HttpRequest) -> HttpResponseBase:
        """Redeem the token, begin a session and redirect to `next`."""
        user = redeem_login_token(request.POST.get("token", ""), now=timezone.now())
        if user is None:
            return self._page(request, status=403, is_refused=True)
        begin_session(request, user)
        target = request.GET.get("next", "/")
        if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
            target = "/"
        response = HttpResponseRedirect(target)
        remember_browser(response, user)
        return response

    @staticmethod
    def _page(request: HttpRequest, *, status: int = 200, is_refused: bool = False) -> HttpResponse:
        minutes = int(LINK_LIFETIME.total_seconds() // 60)
        facts = {"is_refused": is_refused, "minutes": minutes}
        return render(request, "runs/login_once.html", facts, status=status)


# API views of the audit log and sessions.

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
            values = [getattr(row, name) for name in names]
            writer.writerow(["" if value is None else plain_cell(str(value)) for value in values])
        headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        return HttpResponse(
            text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers
        )


class SessionsView(ApiView):
    """The sessions of a person."""

    permission_classes = [Known]

    @extend_schema(operation_id="sessions_count", responses={200: SessionCount}, tags=["session"])
    def get(self, request: Request) -> HttpResponse:
        """Count your sessions.

        0 for tokens.
        """
        return answer(_sessions(request))

    @extend_schema(
        operation_id="sessions_delete_others",
        parameters=[REASON],
        request=None,
        responses={200: SessionCount},
        tags=["session"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """End your other sessions."""
        person = person_of(request)
        if person is not None:
            end_sessions(
                user=person,
                but=request.session.session_key,
                actor=identity_of(request),
                reason=reason_in(request),
                now=timezone.now(),
            )
        return answer(_sessions(request))


def _sessions(request: Request) -> SessionCount:
    person = person_of(request)
    keys = session_keys(person, now=timezone.now()) if person else []
    return SessionCount(sessions=len(keys))


def _filters(request: Request) -> dict[str, str]:
    return {name: text_parameter(request, name) for name in FILTER_PARAMETERS}
