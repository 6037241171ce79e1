"""Schemas of the audit log, sessions and tokens."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from web.http.bodies import Name
from web.rules.pages import Page


class AuditRow(Struct, frozen=True, kw_only=True):
    """One recorded change: actor, action, time and reason."""

    id: int
    at: datetime
    run: str | None
    """Null for changes of the deployment."""
    run_uid: str | None
    """Immutable id of the run."""
    kind: str
    level: Literal["info", "warning", "error"]
    actor: str
    actor_name: str
    """Name of the token, if the actor is one; otherwise as `actor`."""
    message: str
    reason: str
    details: dict[str, Any]
    request_id: str


class AuditList(Page[AuditRow], frozen=True, kw_only=True):
    """A page of the audit, newest first."""


class SessionCount(Struct, frozen=True, kw_only=True):
    """Number of browsers that a person is signed in on, including this one."""

    sessions: int


class CreateToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to create; valid for all runs without `run`, and without end without an expiry."""

    name: Annotated[str, Meta(min_length=1, max_length=120)]
    scopes: Annotated[
        list[Literal["trainer", "env", "worker", "read", "user", "metrics", "admin"]],
        Meta(min_length=1, max_length=7),
    ]
    run: Name | None = None
    expires_in_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)] | None = None
    networks: Annotated[list[Annotated[str, Meta(max_length=60)]], Meta(max_length=20)] = []
    """Addresses and networks that may use it, such as 10.0.0.0/8; empty for all."""


class TokenRow(Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: int
    name: str
    prefix: str
    scopes: list[str]
    run: str | None
    run_uid: str | None
    """Immutable id of the run."""
    networks: list[str]
    """Networks that may use it; empty for all."""
    issuer: Literal["person", "platform", "manager"]
    """Source of its rights: its owner, the server, or the server for a fleet manager."""
    created_by: str | None
    """The owner, whose present role limits the token."""
    suspended: list[str]
    """Scopes without effect, because the owner's role does not allow them at present."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class CreatedToken(TokenRow, frozen=True, kw_only=True):
    """A new token; `token` is shown only once."""

    token: str


class TokenList(Page[TokenRow], frozen=True, kw_only=True):
    """Tokens, newest first."""


class Session(Struct, frozen=True, kw_only=True):
    """The signed-in user."""

    authenticated: bool
    username: str
    role: Literal["anonymous", "viewer", "operator", "admin"]


class ChangePassword(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new password of the signed-in person."""

    current_password: Annotated[str, Meta(min_length=1, max_length=4096)]
    new_password: Annotated[str, Meta(min_length=1, max_length=4096)]


class SignIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Credentials of a person."""

    username: Annotated[str, Meta(min_length=1, max_length=150)]
    password: Annotated[str, Meta(min_length=1, max_length=4096)]
