"""Identity of the caller, as used in events, leases and rights."""

from django.contrib.auth.models import AbstractBaseUser
from rest_framework.request import Request

from runs.access.models import ApiToken, User
from runs.access.queries import caller_of_token, caller_of_user
from runs.access.rules import Caller


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, cached on the request."""
    caller: Caller | None = getattr(request, "rolldeck_caller", None)
    if caller is None:
        if isinstance(request.auth, ApiToken):
            caller = caller_of_token(request.auth)
        elif isinstance(request.user, AbstractBaseUser):
            caller = caller_of_user(request.user)
        else:
            caller = Caller(identity=f"address:{request.META.get('REMOTE_ADDR', '')}")
        request.rolldeck_caller = caller  # type: ignore[attr-defined]
    return caller


def identity_of(request: Request) -> str:
    """Return `token:<id>`, `user:<name>` or `address:<ip>`."""
    return caller_of(request).identity


def owner_of(request: Request) -> User | None:
    """Return the person behind a request: signed in, or the owner of its token."""
    return request.auth.created_by if isinstance(request.auth, ApiToken) else person_of(request)


def person_of(request: Request) -> User | None:
    """Return the signed-in person, or None for machines and anonymous callers."""
    return request.user if isinstance(request.user, User) else None
