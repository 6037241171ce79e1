"""End the sessions of a person everywhere."""

from datetime import datetime

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction

from runs.services.events import record_event


def sessions_of(user: User, *, now: datetime) -> list[str]:
    """Return the keys of the live sessions of a person."""
    mine = str(user.pk)
    return [
        session.session_key
        for session in Session.objects.filter(expire_date__gt=now).iterator()
        if session.get_decoded().get("_auth_user_id") == mine
    ]


@transaction.atomic
def end_sessions(*, user: User, but: str | None, actor: str, now: datetime) -> int:
    """Sign a person out on every browser but the one of session `but`; return how many."""
    keys = [key for key in sessions_of(user, now=now) if key != but]
    ended, _ = Session.objects.filter(session_key__in=keys).delete()
    record_event(
        run_id=None,
        kind="signed_out",
        message=f"{user.get_username()} signed out on {ended} other browsers",
        actor=actor,
        now=now,
    )
    return ended
