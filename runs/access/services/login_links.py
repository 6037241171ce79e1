"""One-time login links.

The token is in the fragment of the link, which browsers do not send and servers and proxies do not
log. The page behind the link posts it.
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.core import signing
from django.utils.crypto import constant_time_compare

from runs.access.models import User

LINK_LIFETIME: Final = timedelta(minutes=10)
LOGIN_LINK_PATH: Final = "/login/once"
_LINK_SALT: Final = "runs.access.services"


def make_login_link(user: User, *, then: str = "", now: datetime) -> str:
    """Return the path of a link that signs `user` in once, within :data:`LINK_LIFETIME`.

    Any sign-in of the user ends the link, and so does a change of the password.

    Args:
        user: The person.
        then: Path of the page to show afterwards.
        now: Time of creation.
    """
    token = signing.Signer(salt=_LINK_SALT).sign_object(
        [user.pk, _written(now + LINK_LIFETIME), _written(user.last_login), _password_mark(user)]
    )
    query = f"?{urlencode({'next': then}, safe='/')}" if then else ""
    return f"{LOGIN_LINK_PATH}{query}#{token}"


def redeem_login_token(token: str, *, now: datetime) -> User | None:
    """Use up a token; return its user, or None if it is invalid, used or expired.

    A single UPDATE decides: of several concurrent redemptions, one changes the row.
    """
    try:
        pk, until, last_login, mark = signing.Signer(salt=_LINK_SALT).unsign_object(token)
    except signing.BadSignature:
        return None
    if now >= _time(until):
        return None
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None or not constant_time_compare(_password_mark(user), mark):
        return None
    unused = User.objects.filter(
        pk=pk,
        is_active=True,
        password=user.password,
        last_login=_time(last_login) if last_login else None,
    )
    return user if unused.update(last_login=now) else None


def _password_mark(user: User) -> str:
    return user.get_session_auth_hash()[:16]


def _written(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat() if moment else ""


def _time(written: str) -> datetime:
    return datetime.fromisoformat(written)
