"""Tokens, sessions, passwords and login links.

An attempt is counted before the password is checked, in one transaction: however many arrive at
the same time, in however many processes, no more than the limit are checked.

A browser that a person has signed in with before has a cookie, signed with the deployment's secret
key, that outlives the session. It grants no access: the browser only gets a separate counter of
attempts (`runs.access.rules`).

The token is in the fragment of the link, which browsers do not send and servers and proxies do not
log. The page behind the link posts it.
"""

import hashlib
import math
import os
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import authenticate as authenticate_person
from django.contrib.auth import password_validation
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.sessions.models import Session
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import F
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from runs.access import rules
from runs.access.models import ApiToken, LoginCount, TokenIssuer, User
from runs.access.queries import OPERATORS_GROUP
from runs.access.rules import SCOPES, Role
from runs.events.services import record_event
from web.rules.errors import Forbidden, Invalid, NotFound, TooManyRequests
from web.sql import first_row, related_row

# Create, check and revoke tokens; only their hashes are stored.

BOOTSTRAP: Final = "bootstrap"
MINIMUM_BOOTSTRAP_LENGTH: Final = 16
# `last_used_at` is informative; writing it on each request would make every read a write.
USE_RECORDED_EVERY: Final = timedelta(minutes=1)
# The role of a token's owner, as `role_of` computes it for a session; null without an owner.
OWNER_ROLE: Final = f"""(
    SELECT CASE
        WHEN NOT person.is_active THEN {Role.ANONYMOUS:d}
        WHEN person.is_superuser OR person.is_staff THEN {Role.ADMIN:d}
        WHEN EXISTS (
            SELECT FROM auth_user_groups membership
            JOIN auth_group joined ON joined.id = membership.group_id
            WHERE membership.user_id = person.id AND joined.name = '{OPERATORS_GROUP}'
        ) THEN {Role.OPERATOR:d}
        ELSE {Role.VIEWER:d}
    END
    FROM auth_user person WHERE person.id = created_by_id
)"""  # noqa: S608 constants of this module


class UnknownScope(Invalid):
    """The scopes of a token to create are missing, unknown or without effect."""

    field = "scopes"


class ScopeNotGranted(Forbidden):
    """The person may not grant a scope to a token."""

    code = "scope_not_granted"


class TokenNotFound(NotFound):
    """The token does not exist."""


class TokenTooShort(Invalid):
    """The chosen secret is too easy to guess."""

    field = "ROLLDECK_BOOTSTRAP_TOKEN"


def check_grant(scopes: Iterable[str], *, caller: rules.Caller, is_own_run: bool) -> None:
    """Check that a caller may create a token with `scopes`.

    Args:
        scopes: Scopes of the token.
        caller: The requesting person or token.
        is_own_run: Whether the token is bound to a run that the caller's person created.

    Raises:
        ScopeNotGranted: If one of them is not permitted; the message names it and the condition.
    """
    if rules.may_administer(caller):
        return
    granted = rules.grantable(scopes, role=caller.role, is_own_run=is_own_run)
    if refused := sorted(set(scopes) - granted):
        raise ScopeNotGranted(
            f"scopes: {', '.join(refused)} not permitted. Operators create tokens with the scopes "
            "env, trainer and worker for one run that they created (run), and with read and user; "
            "other tokens need the role admin"
        )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@transaction.atomic
def create_token(
    *,
    name: str,
    scopes: Iterable[str],
    run_id: int | None = None,
    created_by: User | None = None,
    issuer: TokenIssuer = TokenIssuer.PERSON,
    expires_at: datetime | None = None,
    from_networks: Iterable[str] = (),
    actor: str = "",
    now: datetime,
) -> tuple[ApiToken, str]:
    """Create a token and return it with its text, which is not stored.

    Args:
        name: Purpose of the token, for lists.
        scopes: Permissions of the token.
        run_id: The only run that it is valid for; None for all.
        created_by: The owner, whose present role limits the token; None for the platform's own.
        issuer: Source of its rights; a person's token needs `created_by`, others have none.
        expires_at: First moment at which it is refused; None for no limit.
        from_networks: Addresses or networks that it is valid from; none for all.
        actor: Author in the audit; the owner if empty.
        now: Time of creation.

    Raises:
        UnknownScope: If no scope is given, one is unknown, or `user` is given without an owner.
        InvalidNetwork: If `from_networks` holds anything but addresses and rules.
    """
    known = rules.checked(from_networks)
    checked = sorted(set(scopes))
    if not checked or not set(checked) <= set(SCOPES):
        raise UnknownScope(f"must be some of {', '.join(SCOPES)}; got {checked}")
    if "user" in checked and created_by is None:
        raise UnknownScope(
            "a token with the scope user has the role of its owner: create it while signed in, "
            "or with a token that a person created"
        )
    prefix = f"rd_{secrets.token_hex(4)}"
    text = f"{prefix}_{secrets.token_urlsafe(24)}"
    token = ApiToken.objects.create(
        name=name,
        prefix=prefix,
        token_sha256=_sha256(text),
        scopes=checked,
        run_id=run_id,
        created_by=created_by,
        issuer=issuer,
        created_at=now,
        expires_at=expires_at,
        networks=known,
    )
    record_event(
        run_id=run_id,
        kind="token_created",
        message=f"token {name} created for {', '.join(checked)}",
        actor=actor or (f"user:{created_by.get_username()}" if created_by else "platform"),
        details={"token": token.pk, **({"networks": known} if known else {})},
        now=now,
    )
    return token, text


@transaction.atomic
def revoke_tokens_of(person: User, *, actor: str, reason: str, now: datetime) -> None:
    """Revoke every live token of a person, each with an event."""
    live = ApiToken.objects.filter(created_by=person, revoked_at=None)
    for token_id in live.values_list("pk", flat=True):
        revoke_token(token_id=token_id, actor=actor, reason=reason, now=now)


@transaction.atomic
def revoke_token(
    *, token_id: int, owner: User | None = None, actor: str, reason: str = "", now: datetime
) -> None:
    """Revoke a token from the next request on; repeating it changes nothing.

    Raises:
        TokenNotFound: If there is no such token, or it is not one of `owner`, if given.
    """
    token = ApiToken.objects.filter(pk=token_id).first()
    if token is None or (owner is not None and token.created_by_id != owner.pk):
        raise TokenNotFound(f"token {token_id} not found")
    if not ApiToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=now):
        return
    record_event(
        run_id=token.run_id,
        kind="token_revoked",
        message=f"token {token.name} revoked",
        actor=actor,
        reason=reason,
        details={"token": token.pk},
        now=now,
    )


@transaction.atomic
def adopt_bootstrap_token(*, text: str, now: datetime) -> ApiToken:
    """Create an admin token with the secret `text`, unless it exists, and revoke earlier ones.

    Tokens that were created with an earlier one stay valid.

    Raises:
        TokenTooShort: If `text` has fewer than :data:`MINIMUM_BOOTSTRAP_LENGTH` characters.
    """
    if len(text) < MINIMUM_BOOTSTRAP_LENGTH:
        raise TokenTooShort(f"{len(text)} characters, at least {MINIMUM_BOOTSTRAP_LENGTH} required")
    token, _ = ApiToken.objects.get_or_create(
        token_sha256=_sha256(text),
        defaults={
            "name": BOOTSTRAP,
            "prefix": BOOTSTRAP,
            "scopes": ["admin"],
            "issuer": TokenIssuer.PLATFORM,
            "created_at": now,
        },
    )
    earlier = ApiToken.objects.filter(prefix=BOOTSTRAP, revoked_at=None).exclude(pk=token.pk)
    for token_id in earlier.values_list("pk", flat=True):
        revoke_token(
            token_id=token_id,
            actor="platform",
            reason="ROLLDECK_BOOTSTRAP_TOKEN has another value",
            now=now,
        )
    return token


def authenticate(*, text: str, address: str | None, now: datetime) -> ApiToken | None:
    """Return the valid token whose secret is `text`, and note its use; None if there is none.

    The token carries the present role of its owner. A token whose owner is inactive is not valid.

    Args:
        text: The secret.
        address: Address of the client; None if unknown, as of a local socket.
        now: Time of the request.
    """
    token = first_row(
        ApiToken,
        "token_sha256 = %s AND revoked_at IS NULL",
        [_sha256(text)],
        computed={"owner_role": OWNER_ROLE},
    )
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    if token.issuer == TokenIssuer.PERSON and not token.owner_role:
        return None
    if token.networks and not rules.is_within(address, token.networks):
        return None
    if token.run_id is not None:
        token.run = related_row(token, "run")
        if token.run is None or token.run.archived_at is not None:
            return None
    if token.last_used_at is None or token.last_used_at <= now - USE_RECORDED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


# Count and end the sessions of a person.


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


# Check passwords with counted attempts, bounded concurrency and no held database connection.

COOKIE: Final = "rolldeck_browser"
MAX_AGE_SECONDS: Final = 90 * 24 * 3600
_SALT: Final = "runs.access.services"


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


class WrongPassword(Forbidden):
    """The current password is wrong."""

    code = "wrong_password"
    title = "Wrong password"


class WeakPassword(Invalid):
    """The new password is too easy to guess."""

    field = "new_password"


def change_password(
    request: HttpRequest, user: User, *, current: str, new: str, actor: str, now: datetime
) -> None:
    """Change the password of a person, which ends their other sessions and their login links.

    The check of the current password counts as an attempt to sign in.

    Raises:
        WrongPassword: If `current` is wrong.
        WeakPassword: If `new` breaks a rule of passwords; the message lists the rules.
        TooManyLogins: If the limit of attempts is reached.
    """
    name = user.get_username()
    if authenticate_person(request, username=name, password=current) is None:
        raise WrongPassword("the current password is wrong")
    try:
        password_validation.validate_password(new, user)
    except ValidationError as error:
        raise WeakPassword(" ".join(error.messages)) from error
    user.set_password(new)
    with transaction.atomic():
        user.save(update_fields=["password"])
        record_event(
            run_id=None,
            kind="password_changed",
            message=f"{name} changed their password",
            actor=actor,
            now=now,
        )


_KEPT: Final = timedelta(hours=1)
# The keys are sorted: two attempts lock rows that they share in the same order.
_COUNT: Final = """
    INSERT INTO runs_logincount AS counted (key, attempts, window_ends_at)
    SELECT key, 1, %(ends)s FROM unnest(%(keys)s::text[]) AS key
    ON CONFLICT (key) DO UPDATE SET
        attempts = CASE WHEN counted.window_ends_at > %(now)s THEN counted.attempts + 1 ELSE 1 END,
        window_ends_at = CASE WHEN counted.window_ends_at > %(now)s
            THEN counted.window_ends_at ELSE excluded.window_ends_at END
    RETURNING key, attempts, window_ends_at
"""


class TooManyLogins(TooManyRequests):
    """The limit of password attempts is reached."""

    title = "Too many attempts to sign in"

    def __init__(self, *, retry_after_seconds: int) -> None:
        super().__init__(f"too many sign-in attempts; try again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """A counted attempt: its counters, each with the end of the window that it counts in."""

    windows: tuple[tuple[str, datetime], ...]


def reserve_attempt(*, name: str, address: str, browser: str = "", now: datetime) -> LoginAttempt:
    """Count an attempt to sign in, before its password is checked.

    Raises:
        TooManyLogins: If a counter is at its limit; then nothing is counted.
    """
    counters = rules.counters(name=name, address=address, browser=browser)
    limits = {counter.key: counter.limit for counter in counters}
    ends = now + timedelta(seconds=rules.WINDOW_SECONDS)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {"keys": sorted(limits), "now": now, "ends": ends})
            counted = cursor.fetchall()
        # An attempt that waited for a row's lock reads a window that began after its own `now`.
        waits = [min(until, ends) - now for key, count, until in counted if count > limits[key]]
        if waits:
            raise TooManyLogins(retry_after_seconds=math.ceil(max(waits).total_seconds()))
    return LoginAttempt(windows=tuple((key, until) for key, _, until in counted))


def return_attempt(attempt: LoginAttempt) -> None:
    """Uncount an attempt whose password was right: only wrong ones use up the limit."""
    for key, until in attempt.windows:
        found = LoginCount.objects.filter(key=key, window_ends_at=until, attempts__gt=0)
        found.update(attempts=F("attempts") - 1)


def delete_old_attempts(*, now: datetime) -> int:
    """Delete counters whose window ended more than an hour ago; return how many."""
    deleted, _ = LoginCount.objects.filter(window_ends_at__lt=now - _KEPT).delete()
    return deleted


# A hash takes a core for a few tenths of a second; half of the cores remain for requests.
HASHES_AT_A_TIME: Final = max(1, (os.cpu_count() or 1) // 2)
# Attempts per process that are being counted, waiting for a hash, or hashing.
ATTEMPTS_AT_A_TIME: Final = 16
BUSY_RETRY_SECONDS: Final = 5

_hashes = threading.BoundedSemaphore(HASHES_AT_A_TIME)
_attempts = threading.BoundedSemaphore(ATTEMPTS_AT_A_TIME)


class BoundedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's hasher; at most :data:`HASHES_AT_A_TIME` compute in a process."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Return the hash of a password."""
        if not connection.in_atomic_block:
            connection.close()  # returned to the pool while hashing
        with _hashes:
            return super().encode(password, salt, iterations)


class CountedPasswords(ModelBackend):
    """The only authentication backend: every attempt is counted before its password is checked."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """Return the user, or None if the name or the password is wrong.

        Raises:
            TooManyLogins: If the limit is reached; the password is not checked.
        """
        if username is None or password is None:
            return None
        if not _attempts.acquire(blocking=False):
            raise TooManyLogins(retry_after_seconds=BUSY_RETRY_SECONDS)
        try:
            attempt = reserve_attempt(
                name=username,
                address=address_of(request),
                browser=known_browser(request, username),
                now=timezone.now(),  # noqa: TID251 Django calls this without a time
            )
            user = super().authenticate(request, username=username, password=password, **kwargs)
        finally:
            _attempts.release()
        if user is not None:
            return_attempt(attempt)
        return user


def address_of(request: HttpRequest | None) -> str:
    """Return the IP address that a request comes from."""
    return "" if request is None else str(request.META.get("REMOTE_ADDR", ""))


# One-time login links.

LINK_LIFETIME: Final = timedelta(minutes=15)
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
