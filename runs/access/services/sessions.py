"""Count and end the sessions of a person, and know their browsers.

A browser that a person has signed in with before has a cookie, signed with the deployment's secret
key, that outlives the session. It grants no access: the browser only gets a separate counter of
attempts (`runs.access.rules`).
"""

import secrets
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.sessions.models import Session
from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from runs.access.models import User
from runs.events.services import record_event

COOKIE: Final = "rolldeck_browser"
MAX_AGE_SECONDS: Final = 90 * 24 * 3600
_SALT: Final = "runs.access.services"


def session_keys(user: User, *, now: datetime) -> list[str]:
    """Return the keys of the valid sessions of a person."""
    mine = str(user.pk)
    return [
        session.session_key
        for session in Session.objects.filter(expire_date__gt=now).iterator()
        if session.get_decoded().get("_auth_user_id") == mine
    ]


@transaction.atomic
def end_sessions(
    *, user: User, but: str | None, actor: str, reason: str = "", now: datetime
) -> int:
    """Sign a person out of all browsers except session `but`; return the number of sessions."""
    keys = [key for key in session_keys(user, now=now) if key != but]
    ended, _ = Session.objects.filter(session_key__in=keys).delete()
    record_event(
        run_id=None,
        kind="signed_out",
        message=f"{user.get_username()} signed out on {ended} other browsers",
        actor=actor,
        reason=reason,
        now=now,
    )
    return ended


def begin_session(request: HttpRequest, user: User) -> None:
    """Sign a person in with a new session key; Django keeps that of a browser with a session."""
    if not request.session.is_empty():
        request.session.cycle_key()
    login(request, user)


def known_browser(request: HttpRequest | None, name: str) -> str:
    """Return the id of the request's browser if it has signed in as `name`, else ""."""
    if request is None:
        return ""
    try:
        found: Any = signing.loads(
            request.COOKIES.get(settings.COOKIE_PREFIX + COOKIE, ""),
            salt=_SALT,
            max_age=MAX_AGE_SECONDS,
        )
        known, browser = found
    except (signing.BadSignature, TypeError, ValueError):
        return ""
    return str(browser) if known == name else ""


def remember_browser(response: HttpResponseBase, user: User) -> None:
    """Mark the browser as one that `user` signs in with."""
    response.set_cookie(
        settings.COOKIE_PREFIX + COOKIE,
        signing.dumps([user.get_username(), secrets.token_hex(16)], salt=_SALT),
        max_age=MAX_AGE_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=bool(settings.SESSION_COOKIE_SECURE),
    )
