"""Roles and rights of people and tokens, their sessions, and the API tokens."""

from types import SimpleNamespace
from typing import Any, Final

from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore

from runs.access.models import ApiToken, TokenIssuer
from runs.access.rules.rights import Caller, Role, token_caller
from runs.access.schemas import Session, TokenRow

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
    )


def caller_of_session(session_key: str) -> Caller | None:
    """Return the user signed in under a session key, or None."""
    user = get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]
    return caller_of_user(user) if isinstance(user, AbstractBaseUser) else None


def token_fields(token: ApiToken) -> dict[str, Any]:
    """Return the public fields of a token."""
    shown = set(TokenRow.__struct_fields__) - {"suspended"}
    given: dict[str, Any] = {field: getattr(token, field) for field in shown}
    given["run"] = token.run.name if token.run else None
    given["created_by"] = token.created_by.get_username() if token.created_by else None
    given["suspended"] = sorted(caller_of_token(token).suspended)
    return given


def tokens() -> list[TokenRow]:
    """Return all tokens, newest first."""
    found = list(ApiToken.objects.select_related("run", "created_by").order_by("-id"))
    roles = {owner: role_of(owner) for owner in {token.created_by for token in found} if owner}
    for token in found:
        token.owner_role = roles[token.created_by] if token.created_by else None
    return [TokenRow(**token_fields(token)) for token in found]
