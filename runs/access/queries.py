"""Callers, their roles and rights, and the audit log."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.db.models import Q

from runs.access.models import ApiToken, TokenIssuer, User
from runs.access.rules import Caller, Role, token_caller
from runs.access.schemas import AuditRow, Session, TokenRow
from runs.events.models import RunEvent

# Read the audit log.

AUDIT_AT_MOST: Final = 500


def token_names(identities: Any) -> dict[str, str]:
    """Return the names of those identities that are tokens."""
    numbers = [
        int(number)
        for kind, _, number in (identity.partition(":") for identity in set(identities))
        if kind == "token" and number.isdigit()
    ]
    found = ApiToken.objects.filter(pk__in=numbers).values_list("pk", "name")
    return {f"token:{pk}": name for pk, name in found}


def shown_name(identity: str, names: Mapping[str, str]) -> str:
    """Return the display name of an actor; `names` are those of tokens, by identity."""
    return names.get(identity) or identity.partition(":")[2] or identity


def audit(*, filters: dict[str, str], before: int | None, limit: int) -> list[AuditRow]:
    """Return audit rows, newest first.

    Args:
        filters: Any of `actor`, `run`, `kind`, `request` (exact match), `text` (part of message or
            reason), `people` ("1": only actions of people and tokens).
        before: Only rows with a smaller id.
        limit: Maximum number of rows.
    """
    # Events of a deleted run are hidden until they are removed.
    found = RunEvent.objects.filter(run__deleted_at=None)
    whole = {"actor": "actor", "kind": "kind", "request": "request_id"}
    for name, column in whole.items():
        if filters.get(name):
            found = found.filter(**{column: filters[name]})
    if run := filters.get("run"):
        found = found.filter(Q(run__name=run) | Q(run__uid=run))
    if filters.get("people"):
        found = found.filter(Q(actor__startswith="user:") | Q(actor__startswith="token:"))
    if text := filters.get("text"):
        found = found.filter(Q(message__icontains=text) | Q(reason__icontains=text))
    if before is not None:
        found = found.filter(id__lt=before)
    rows = list(found.select_related("run").order_by("-id")[:limit])
    names = token_names(row.actor for row in rows)
    own = set(AuditRow.__struct_fields__) - {"run", "run_uid", "actor_name"}
    return [
        AuditRow(
            **{name: getattr(row, name) for name in own},
            run=row.run.name if row.run else None,
            run_uid=row.run.uid if row.run else None,
            actor_name=names.get(row.actor, row.actor.partition(":")[2] or row.actor),
        )
        for row in rows
    ]


# Roles and rights of people and tokens, their sessions, and the API tokens.

OPERATORS_GROUP: Final = "operator"


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """Return the role of a signed-in person."""
    if not isinstance(user, User) or not user.is_active:
        return Role.ANONYMOUS
    if user.is_superuser or user.is_staff:
        return Role.ADMIN
    if user.groups.filter(name=OPERATORS_GROUP).exists():
        return Role.OPERATOR
    return Role.VIEWER


def session_of(user: AbstractBaseUser | AnonymousUser) -> Session:
    """Return the session for pages: user name and role."""
    return Session(
        authenticated=user.is_authenticated,
        username=user.get_username(),
        role=role_of(user).name.lower(),  # type: ignore[arg-type] # a known role
    )


def session_part(username: str) -> Session:
    """Return the current session of a person by name; anonymous if they do not exist."""
    return session_of(User.objects.filter(username=username).first() or AnonymousUser())


def caller_of_user(user: AbstractBaseUser) -> Caller:
    """Return a signed-in person as a caller."""
    return Caller(identity=f"user:{user.get_username()}", role=role_of(user))


def caller_of_token(token: ApiToken) -> Caller:
    """Return an authenticated token as a caller, limited to its owner's role."""
    is_of_person = token.issuer == TokenIssuer.PERSON
    return token_caller(
        identity=f"token:{token.pk}",
        scopes=token.scopes,
        owner_role=Role(token.owner_role or Role.ANONYMOUS) if is_of_person else None,
        run=token.run.name if token.run else None,
        run_uid=token.run.uid if token.run else None,
        is_own_run=is_own_run(token),
    )


def is_own_run(token: ApiToken) -> bool:
    """Return whether a token is bound to a run that its owner created."""
    return (
        token.run is not None
        and token.created_by_id is not None
        and token.run.created_by_id == token.created_by_id
    )


def caller_of_session(session_key: str) -> Caller | None:
    """Return the user signed in under a session key, or None."""
    user = get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]
    return caller_of_user(user) if isinstance(user, AbstractBaseUser) else None


def token_fields(token: ApiToken) -> dict[str, Any]:
    """Return the public fields of a token."""
    shown = set(TokenRow.__struct_fields__) - {"run", "run_uid", "suspended"}
    given: dict[str, Any] = {field: getattr(token, field) for field in shown}
    given["run"] = token.run.name if token.run else None
    given["run_uid"] = token.run.uid if token.run else None
    given["created_by"] = token.created_by.get_username() if token.created_by else None
    given["suspended"] = sorted(caller_of_token(token).suspended)
    return given


def tokens(*, owner: User | None = None) -> list[TokenRow]:
    """Return all tokens, or those of one owner, newest first."""
    rows = ApiToken.objects.select_related("run", "created_by").order_by("-id")
    found = list(rows if owner is None else rows.filter(created_by=owner))
    roles = {owner: role_of(owner) for owner in {token.created_by for token in found} if owner}
    for token in found:
        token.owner_role = roles[token.created_by] if token.created_by else None
    return [TokenRow(**token_fields(token)) for token in found]
