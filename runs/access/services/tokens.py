"""Create, check and revoke tokens; only their hashes are stored."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from runs.access import rules
from runs.access.models import ApiToken, TokenIssuer, User
from runs.access.queries import OPERATORS_GROUP
from runs.access.rules import SCOPES, Role
from runs.events.services import record_event
from web.rules.errors import Forbidden, Invalid, NotFound
from web.sql import first_row, related_row

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
