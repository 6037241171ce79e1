"""Open views to callers; a view that names none of these is closed to everybody."""

from functools import cache
from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.api.identity import caller_of
from runs.core import rights

if TYPE_CHECKING:
    # REST framework's views read the default permissions, which are here, when they load.
    from rest_framework.views import APIView


def _run_of(view: "APIView") -> str | None:
    """Return the name of the run in the view's URL, or None when it has none."""
    run = view.kwargs.get("run")
    return run if isinstance(run, str) else None


class Denied(BasePermission):
    """Nobody: what a view gets that forgot to say more."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return False."""
        return False


class Anyone(BasePermission):
    """Everybody, signed in or not."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return True."""
        return True


class Known(BasePermission):
    """Every person with a session and every machine with a valid token."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is known."""
        return caller_of(request).is_known


class Readers(BasePermission):
    """People, and machines that belong to the run."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller may look."""
        return rights.may_read(caller_of(request), run=_run_of(view))


class Operators(BasePermission):
    """Those who may create, start, pause and end runs."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller may operate."""
        return rights.may_operate(caller_of(request), run=_run_of(view))


class Admins(BasePermission):
    """Those who may mint tokens."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller may administer."""
        return rights.may_administer(caller_of(request), run=_run_of(view))


@cache
def scoped(*scopes: str) -> type[BasePermission]:
    """Return the permission of machines with one of `scopes`, for the run in the URL.

    Administrators pass as well.
    """

    class Scoped(BasePermission):
        """Machines with one of a few scopes."""

        def has_permission(self, request: Request, view: "APIView") -> bool:
            """Return whether the caller may speak as one of these machines."""
            caller, run = caller_of(request), _run_of(view)
            return any(rights.may_act_as(caller, scope, run=run) for scope in scopes)

    Scoped.__name__ = "Scoped" + "Or".join(scope.title() for scope in scopes)
    return Scoped
