"""Recognize browsers that a person has signed in with before.

A cookie, signed with the deployment's secret key, outlives the session. It grants no access: the
browser only gets a separate counter of attempts (`runs.access.rules.login_limits`).
"""

import secrets
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

COOKIE: Final = "rolldeck_browser"
MAX_AGE_SECONDS: Final = 90 * 24 * 3600
_SALT: Final = "runs.access.services.known_browsers"


def known_browser(request: HttpRequest | None, name: str) -> str:
    """Return the id of the request's browser if it has signed in as `name`, else ""."""
    if request is None:
        return ""
    try:
        found: Any = signing.loads(
            request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=MAX_AGE_SECONDS
        )
        known, browser = found
    except (signing.BadSignature, TypeError, ValueError):
        return ""
    return str(browser) if known == name else ""


def remember_browser(response: HttpResponseBase, user: User) -> None:
    """Mark the browser as one that `user` signs in with."""
    response.set_cookie(
        COOKIE,
        signing.dumps([user.get_username(), secrets.token_hex(16)], salt=_SALT),
        max_age=MAX_AGE_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=bool(settings.SESSION_COOKIE_SECURE),
    )
