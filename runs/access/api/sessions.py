"""Sign people in and out of the dashboard."""

from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.generic import View
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request

from runs.access import services
from runs.access.api.permissions import Anyone
from runs.access.queries import session_of
from runs.access.schemas import Session, SignIn
from runs.access.services import LINK_LIFETIME, redeem_login_token, remember_browser
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView
from web.rules.errors import Forbidden


class LoginFailed(Forbidden):
    """The user name or the password is wrong."""

    code = "login_failed"
    title = "Sign-in failed"


def _begin_session(request: HttpRequest, user: Any) -> None:
    """Begin a session and record its browser and address."""
    login(request, user)
    browser, address = request.headers.get("User-Agent", ""), request.META.get("REMOTE_ADDR", "")
    request.session.update(
        services.note_of(browser=browser, address=str(address), now=timezone.now())
    )


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
        _begin_session(django_request, user)
        response = answer(session_of(user))
        remember_browser(response, user)
        return response

    @extend_schema(
        operation_id="session_delete",
        request=None,
        responses={200: Session},
        tags=["session"],
    )
    def delete(self, request: Request) -> HttpResponse:
        """Sign out."""
        SessionAuthentication().enforce_csrf(request)
        logout(request._request)  # noqa: SLF001 Django needs its own request
        return answer(Session(authenticated=False, username="", role="anonymous"))


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
        _begin_session(request, user)
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
