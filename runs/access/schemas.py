"""Schemas of the audit log and sessions."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct


class AuditRow(Struct, frozen=True, kw_only=True):
    """One recorded change: actor, action, time and reason."""

    id: int
    at: datetime
    run: str | None
    """Null for changes of the deployment."""
    kind: str
    level: Literal["info", "warning", "error"]
    actor: str
    actor_name: str
    """Name of the token, if the actor is one; otherwise as `actor`."""
    message: str
    reason: str
    details: dict[str, Any]
    request_id: str


class AuditList(Struct, frozen=True, kw_only=True):
    """A page of the audit, newest first."""

    results: list[AuditRow]
    next_before: int | None


class AuditNews(Struct, frozen=True, kw_only=True):
    """Newest audit id, and the last changes by people and tokens."""

    newest: int
    """Id of the newest row; 0 without rows."""
    lately: list[AuditRow]
    """The newest rows caused by people and tokens, newest first."""


class BrowserRow(Struct, frozen=True, kw_only=True):
    """A signed-in browser, as identified at sign-in."""

    id: str
    """Identifier of the session; it does not grant access."""
    is_current: bool
    browser: str
    """Unverified user agent; empty for a sign-in through the admin."""
    address: str
    signed_in_at: datetime | None
    expires_at: datetime


class SessionRow(Struct, frozen=True, kw_only=True):
    """Number of browsers that a person is signed in on, including this one."""

    sessions: int
    results: list[BrowserRow] = []
    """Newest first."""
