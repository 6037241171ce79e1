"""Shape what people look at beside their runs: calls of clients, the audit, sessions."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct


class CallRow(Struct, frozen=True, kw_only=True):
    """One call of the API, or one that stands for many."""

    id: int
    client: str
    at: datetime
    method: str
    path: str
    status: int
    duration_ms: float
    stands_for: int
    """Calls like it within two seconds, of which it is the slowest; 1 for refusals."""
    replayed: bool
    """A repeated push: answered as the first one was, not stored twice."""
    problem: dict[str, Any]


class CallList(Struct, frozen=True, kw_only=True):
    """Calls, newest first."""

    results: list[CallRow]


class ClientRow(Struct, frozen=True, kw_only=True):
    """One client of the API, from its calls that are kept."""

    client: str
    name: str
    """Of its token; empty for an address."""
    last_at: datetime
    calls: int
    refused: int
    replayed: int


class ClientList(Struct, frozen=True, kw_only=True):
    """Clients, the latest first."""

    results: list[ClientRow]


class AuditRow(Struct, frozen=True, kw_only=True):
    """Something that was changed: who, what, when, why."""

    id: int
    at: datetime
    run: str | None
    """Null for what concerns the whole deck."""
    kind: str
    level: Literal["info", "warning", "error"]
    actor: str
    actor_name: str
    """The name of the token, where the actor is one; else as `actor`."""
    message: str
    reason: str
    details: dict[str, Any]
    request_id: str


class AuditList(Struct, frozen=True, kw_only=True):
    """A page of the audit, newest first."""

    results: list[AuditRow]
    next_before: int | None


class AuditNews(Struct, frozen=True, kw_only=True):
    """That something was written into the audit, and what people and tokens changed last."""

    newest: int
    """Id of the newest row of all; 0 where there is none."""
    lately: list[AuditRow]
    """The newest few that people and tokens asked for, newest first."""


class BrowserRow(Struct, frozen=True, kw_only=True):
    """A browser on which a person is signed in, as it called itself then."""

    id: str
    """Of the session, and no way into it."""
    is_current: bool
    browser: str
    """Its own word, unchecked; empty when it came in through the admin."""
    address: str
    signed_in_at: datetime | None
    expires_at: datetime


class SessionRow(Struct, frozen=True, kw_only=True):
    """How many browsers a person is signed in on, this one included."""

    sessions: int
    results: list[BrowserRow] = []
    """The latest first."""
