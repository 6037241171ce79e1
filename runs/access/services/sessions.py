"""List and end the sessions of a person."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction

from runs.events.services import record_event
from web.rules.errors import NotFound

LONGEST_BROWSER: Final = 300
_ID_LETTERS: Final = 20
_NOTE: Final = "came_in"


class SessionNotFound(NotFound):
    """The person has no such session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSession:
    """One session of a person.

    `public_id` identifies the session without granting access to it.
    """

    key: str
    public_id: str
    browser: str
    address: str
    signed_in_at: datetime | None
    expires_at: datetime


def note_of(*, browser: str, address: str, now: datetime) -> dict[str, Any]:
    """Return session data that records the browser, address and time of a sign-in."""
    return {_NOTE: [browser[:LONGEST_BROWSER], address, now.isoformat()]}


def sessions_of(user: User, *, now: datetime) -> list[PersonSession]:
    """Return the valid sessions of a person, the latest first."""
    mine = str(user.pk)
    found = []
    for session in Session.objects.filter(expire_date__gt=now).iterator():
        content = session.get_decoded()
        if content.get("_auth_user_id") == mine:
            browser, address, at = content.get(_NOTE) or ("", "", "")
            found.append(
                PersonSession(
                    key=session.session_key,
                    public_id=_public_id(session.session_key),
                    browser=browser,
                    address=address,
                    signed_in_at=datetime.fromisoformat(at) if at else None,
                    expires_at=session.expire_date,
                )
            )
    return sorted(found, key=lambda one: one.expires_at, reverse=True)


def _public_id(key: str) -> str:
    # The key's entropy makes a plain hash irreversible.
    return hashlib.sha256(key.encode()).hexdigest()[:_ID_LETTERS]


@transaction.atomic
def end_sessions(
    *, user: User, but: str | None, actor: str, reason: str = "", now: datetime
) -> int:
    """Sign a person out of all browsers except session `but`; return the number of sessions."""
    keys = [one.key for one in sessions_of(user, now=now) if one.key != but]
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


@transaction.atomic
def end_session(*, user: User, public_id: str, actor: str, reason: str = "", now: datetime) -> None:
    """Sign a person out of one browser.

    Raises:
        SessionNotFound: If the person has no such session.
    """
    keys = [one.key for one in sessions_of(user, now=now) if one.public_id == public_id]
    ended, _ = Session.objects.filter(session_key__in=keys).delete()
    if not ended:
        raise SessionNotFound("session not found, or already signed out")
    record_event(
        run_id=None,
        kind="signed_out",
        message=f"{user.get_username()} signed out on one browser",
        actor=actor,
        reason=reason,
        now=now,
    )
