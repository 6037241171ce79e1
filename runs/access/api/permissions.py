"""Permissions of API views; a view without one is closed to all callers."""

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from runs.access import rules
from runs.access.api.identity import caller_of, person_of
from runs.access.rules import Rule

if TYPE_CHECKING:
    # REST framework's views import the default permissions of this module on load.
    from rest_framework.views import APIView


class Denied(BasePermission):
    """No caller: the permission of a view that declares none."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return False."""
        return False


class Anyone(BasePermission):
    """Every caller, with or without credentials."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return True."""
        return True


class Known(BasePermission):
    """Every person with a session and every token with any right."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is known."""
        return caller_of(request).is_known


class People(BasePermission):
    """Signed-in people, without their tokens."""

    message = "This needs a signed-in person; tokens are not accepted."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a signed-in person."""
        return person_of(request) is not None


class RulePermission(BasePermission):
    """Callers that pass a rule for the run in the URL; a refusal names what is missing."""

    rule: ClassVar[Rule]
    rule_of_changes: ClassVar[Rule | None] = None
    """Rule of requests that change something; None if it is the same."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller passes the rule."""
        caller, run = caller_of(request), view.kwargs.get("run")
        if not isinstance(run, str):
            run = None
        rule = self.rule
        if self.rule_of_changes is not None and request.method not in SAFE_METHODS:
            rule = self.rule_of_changes
        if rule.allows(caller, run=run):
            return True
        self.message = rule.refusal(caller, run=run)
        return False


class Readers(RulePermission):
    """People, and tokens with the scope `read`."""

    rule = rules.READ


class ReadersOfAnyRun(BasePermission):
    """Readers, and readers of one run: the view answers these with data of their run only."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller may read all runs, or the run that it is bound to."""
        caller = caller_of(request)
        if rules.READ.allows(caller, run=caller.run):
            return True
        self.message = rules.READ.refusal(caller, run=caller.run)
        return False


class RunMachines(RulePermission):
    """Readers, and every machine of the run."""

    rule = rules.KNOW_RUN


class Operators(RulePermission):
    """Operators of runs."""

    rule = rules.OPERATE


class OperatorsToChange(RulePermission):
    """Readers; to change something, operators."""

    rule = rules.READ
    rule_of_changes = rules.OPERATE


class ViewEditors(RulePermission):
    """People, who may save their own views; read-only tokens may not."""

    rule = rules.SAVE_VIEWS


class Admins(RulePermission):
    """Administrators."""

    rule = rules.ADMINISTER


@cache
def scoped(*scopes: str, or_rule: Rule | None = None) -> type[BasePermission]:
    """Return the permission of tokens with one of `scopes`, for the run in the URL.

    Administrators pass as well, and all who pass `or_rule`.
    """
    required = rules.act_as(*scopes)

    class Scoped(RulePermission):
        """Tokens with one of a few scopes."""

        rule = required if or_rule is None else required | or_rule

    Scoped.__name__ = "Scoped" + "Or".join(scope.title() for scope in scopes)
    return Scoped


def readable_by(*scopes: str) -> type[BasePermission]:
    """Return the permission of readers, and of tokens with one of `scopes`."""
    return scoped(*scopes, or_rule=rules.READ)
