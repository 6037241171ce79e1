"""Sign-in and password change of the admin, with the limits that the API has."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.forms import AuthenticationForm

from runs.access.services.passwords import (
    TooManyLogins,
    address_of,
    known_browser,
    remember_browser,
    reserve_attempt,
    return_attempt,
)


class LoginForm(AuthenticationForm):  # type: ignore[misc]  # unfold has no types
    """The admin's sign-in form, which reports when the limit of attempts is reached."""

    refusal: TooManyLogins | None = None

    def clean(self) -> dict[str, Any]:
        """Check name and password."""
        try:
            cleaned: dict[str, Any] = super().clean()
        except TooManyLogins as error:
            self.refusal = error
            raise ValidationError(str(error), code="too_many_requests") from error
        return cleaned


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Serve `/admin/login/`."""
    response: HttpResponseBase = admin.site.login(request)
    if isinstance(response, TemplateResponse):
        form = (response.context_data or {}).get("form")
        if isinstance(form, LoginForm) and form.refusal is not None:
            return _refused(response, form.refusal)
    elif request.method == "POST" and request.user.is_authenticated:
        remember_browser(response, request.user)
    return response


def change_password(request: HttpRequest) -> HttpResponseBase:
    """Serve `/admin/password_change/`; a check of the old password counts as an attempt."""
    if request.method != "POST" or not request.user.is_authenticated:
        return _password_page(request)
    name = request.user.get_username()
    try:
        attempt = reserve_attempt(
            name=name,
            address=address_of(request),
            browser=known_browser(request, name),
            now=timezone.now(),  # noqa: TID251 an entry point
        )
    except TooManyLogins as error:
        page = render(request, "config/too_many_logins.html", {"detail": str(error)})
        return _refused(page, error)
    response = _password_page(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is None or "old_password" not in form.errors:
        return_attempt(attempt)
    return response


def _password_page(request: HttpRequest) -> HttpResponseBase:
    page: HttpResponseBase = admin.site.admin_view(admin.site.password_change)(request)
    return page


def _refused(response: HttpResponse, refusal: TooManyLogins) -> HttpResponse:
    response.status_code = 429
    response["Retry-After"] = str(refusal.retry_after_seconds)
    return response
