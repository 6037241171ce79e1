"""Schemas of API calls, the audit log and sessions."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from web.rules.pages import Page


class CallRow(Struct, frozen=True, kw_only=True):
    """One API call, or the representative of several."""

    id: int
    client: str
    at: datetime
    method: str
    path: str
    status: int
    duration_ms: float
    stands_for: int
    """Number of similar calls within two seconds, of which this is the slowest; 1 for refusals."""
    replayed: bool
    """A repeated push: answered like the first one, not stored again."""
    problem: dict[str, Any]


class CallList(Page[CallRow], frozen=True, kw_only=True):
    """Calls, newest first."""


class ClientRow(Struct, frozen=True, kw_only=True):
    """One client of the API, summarized from its stored calls."""

    client: str
    name: str
    """Name of its token; empty for an address."""
    last_at: datetime
    calls: int
    refused: int
    replayed: int


class ClientList(Page[ClientRow], frozen=True, kw_only=True):
    """Clients, the latest first."""


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


class AuditList(Page[AuditRow], frozen=True, kw_only=True):
    """A page of the audit, newest first."""


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


class SessionRow(Page[BrowserRow], frozen=True, kw_only=True):
    """Browsers that a person is signed in on, including this one; newest first."""

    sessions: int
