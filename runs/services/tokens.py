"""Mint, check and revoke the secrets of machines; only their hashes are kept."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from runs.core import networks
from runs.core.rights import SCOPES
from runs.models import ApiToken, Run
from runs.rows import first_row
from runs.services.events import record_event

MINIMUM_BOOTSTRAP_LENGTH: Final = 16
# `last_used_at` is for people; writing it at each request would make every read a write.
USE_IS_NOTED_EVERY: Final = timedelta(minutes=1)


class UnknownScope(ValueError):
    """A token cannot have this scope."""

    field = "scopes"


class TokenNotFound(LookupError):
    """There is no such token."""


class TokenTooShort(ValueError):
    """A chosen secret is too easy to guess."""

    field = "ROLLDECK_BOOTSTRAP_TOKEN"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@transaction.atomic
def mint_token(
    *,
    name: str,
    scopes: Iterable[str],
    run_id: int | None = None,
    created_by: User | None = None,
    expires_at: datetime | None = None,
    from_networks: Iterable[str] = (),
    now: datetime,
) -> tuple[ApiToken, str]:
    """Return a new token and its text, which is nowhere kept.

    Raises:
        UnknownScope: If there is none, or one that no token can have.
        InvalidNetwork: If it is to be good from what is no address and no network.
    """
    known = networks.checked(from_networks)
    wanted = sorted(set(scopes))
    if not wanted or not set(wanted) <= set(SCOPES):
        raise UnknownScope(f"scopes are some of {', '.join(SCOPES)}; got {wanted}")
    prefix = f"rd_{secrets.token_hex(4)}"
    text = f"{prefix}_{secrets.token_urlsafe(24)}"
    token = ApiToken.objects.create(
        name=name,
        prefix=prefix,
        token_sha256=_sha256(text),
        scopes=wanted,
        run_id=run_id,
        created_by=created_by,
        created_at=now,
        expires_at=expires_at,
        networks=known,
    )
    record_event(
        run_id=run_id,
        kind="token_minted",
        message=f"token {name} minted for {', '.join(wanted)}",
        actor=f"user:{created_by.get_username()}" if created_by else "platform",
        details={"token": token.pk, **({"networks": known} if known else {})},
        now=now,
    )
    return token, text


@transaction.atomic
def revoke_token(*, token_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Make a token useless from the next request on; doing it twice is fine.

    Raises:
        TokenNotFound: If there is no such token.
    """
    token = ApiToken.objects.filter(pk=token_id).first()
    if token is None:
        raise TokenNotFound(f"there is no token {token_id}")
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


def adopt_bootstrap_token(*, text: str, now: datetime) -> ApiToken:
    """Make `text` an admin token; at the second start it already is one.

    Raises:
        TokenTooShort: If `text` has fewer than :data:`MINIMUM_BOOTSTRAP_LENGTH` characters.
    """
    if len(text) < MINIMUM_BOOTSTRAP_LENGTH:
        raise TokenTooShort(f"a token has at least {MINIMUM_BOOTSTRAP_LENGTH} characters")
    token, _ = ApiToken.objects.get_or_create(
        token_sha256=_sha256(text),
        defaults={
            "name": "bootstrap",
            "prefix": "bootstrap",
            "scopes": ["admin"],
            "created_at": now,
        },
    )
    return token


def authenticate(*, text: str, address: str | None, now: datetime) -> ApiToken | None:
    """Return the live token whose secret is `text`, and note its use; None if there is none.

    Args:
        text: What was shown.
        address: Where it was shown from; None where nobody knows, such as a local socket.
        now: Time of the request.
    """
    token = first_row(ApiToken, "token_sha256 = %s AND revoked_at IS NULL", [_sha256(text)])
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    if token.networks and not networks.is_within(address, token.networks):
        return None
    if token.run_id is not None:
        token.run = first_row(Run, "id = %s", [token.run_id])
        if token.run is None or token.run.archived_at is not None:
            return None
    if token.last_used_at is None or token.last_used_at <= now - USE_IS_NOTED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
