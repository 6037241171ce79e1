"""Decide who may do what.

A caller is a person with a role or a token with scopes. Nobody may do anything that a
function below does not allow by name.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """What a person may do; each role may do all that the ones below it may."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


SCOPES: Final = ("trainer", "env", "worker", "user", "metrics", "admin")
MACHINE_SCOPES: Final = frozenset({"trainer", "env", "worker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking.

    `role` is that of a person; a token with the user scope has the role of its owner.
    `run` names the only run a token is good for, or is None when it is good for all.
    """

    identity: str
    role: Role = Role.NOBODY
    scopes: frozenset[str] = frozenset()
    run: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the caller has shown a valid session or token."""
        return self.role > Role.NOBODY or bool(self.scopes)


def _covers(caller: Caller, run: str | None) -> bool:
    """Return whether the caller's token reaches `run` (None: the whole deck)."""
    return caller.run is None or caller.run == run


def may_read(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may look at `run`, or at all runs when None."""
    if not _covers(caller, run):
        return False
    return caller.role >= Role.VIEWER or bool(caller.scopes & (MACHINE_SCOPES | {"admin"}))


def may_operate(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may create, start, pause or end runs."""
    return _covers(caller, run) and (caller.role >= Role.OPERATOR or "admin" in caller.scopes)


def may_administer(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may mint tokens and reset runs."""
    return _covers(caller, run) and (caller.role >= Role.ADMIN or "admin" in caller.scopes)


def may_act_as(caller: Caller, scope: str, *, run: str | None = None) -> bool:
    """Return whether the caller may speak as one of the machines of `run`."""
    return _covers(caller, run) and (
        bool(caller.scopes & {scope, "admin"}) or caller.role >= Role.ADMIN
    )
