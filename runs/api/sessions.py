"""Sign people in and out of the dashboard."""

from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.generic import View
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import selectors, services
from runs.api.bodies import answer, read
from runs.api.login_attempts import attempts
from runs.api.openapi import problems
from runs.api.permissions import Anyone
from runs.services import sessions
from runs.wire import Session, SignIn


class LoginFailed(Exception):
    """The user name or the password is wrong."""


class TooManyLogins(Exception):
    """Too many sign-ins failed in the last minute."""


def _come_in(request: HttpRequest, user: Any, **backend: str) -> None:
    """Sign in, and let the session remember which browser it is of."""
    login(request, user, **backend)
    browser, address = request.headers.get("User-Agent", ""), request.META.get("REMOTE_ADDR", "")
    request.session.update(
        sessions.note_of(browser=browser, address=str(address), now=timezone.now())
    )


@method_decorator(never_cache, name="dispatch")
class SessionView(APIView):
    """Who is signed in on this browser."""

    authentication_classes = [SessionAuthentication]
    permission_classes = [Anyone]

    @extend_schema(operation_id="session_show", responses={200: Session}, tags=["session"])
    def get(self, request: Request) -> HttpResponse:
        """Say who is signed in, and set the CSRF cookie."""
        get_token(request._request)  # noqa: SLF001 Django wants its own request
        return answer(selectors.session_of(request.user))

    @extend_schema(
        operation_id="session_begin",
        request=SignIn,
        responses={200: Session, **problems(400, 403, 429)},
        tags=["session"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Sign in; the CSRF token is needed here too."""
        # DRF asks for the token only of those who are signed in already.
        SessionAuthentication().enforce_csrf(request)
        given = read(request, SignIn)
        key = f"{request.META.get('REMOTE_ADDR', '')} {given.username}"
        if attempts.exhausted(key):
            raise TooManyLogins("too many failed sign-ins; wait a minute")
        django_request = request._request  # noqa: SLF001 Django wants its own request
        user = authenticate(django_request, username=given.username, password=given.password)
        if user is None:
            attempts.failed(key)
            raise LoginFailed("the user name or the password is wrong")
        attempts.succeeded(key)
        _come_in(django_request, user)
        return answer(selectors.session_of(user))

    @extend_schema(
        operation_id="session_end",
        request=None,
        responses={200: Session, **problems(403)},
        tags=["session"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """Sign out."""
        SessionAuthentication().enforce_csrf(request)
        logout(request._request)  # noqa: SLF001 Django wants its own request
        return answer(Session(authenticated=False, username="", role="nobody"))


@method_decorator(never_cache, name="dispatch")
class OneTimeLogin(View):
    """Sign in whoever brings a link that this deck printed; it works once."""

    # A HEAD request, as previews send it, must not use the link up.
    http_method_names = ["get"]

    def get(self, request: HttpRequest, token: str) -> HttpResponseBase:
        """Sign in and go on to `next`."""
        user = services.user_of_one_time_token(token)
        if user is None:
            return HttpResponseRedirect("/login?reason=link")
        _come_in(request, user, backend="django.contrib.auth.backends.ModelBackend")
        target = request.GET.get("next", "/")
        if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
            target = "/"
        return HttpResponseRedirect(target)
