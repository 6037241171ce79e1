"""Rights, credentials, networks and password limits, without Django.

Limits of password attempts: which counters an attempt counts in, and how far each goes.

A counter has a fixed window that begins with its first attempt. A refused attempt neither counts
nor extends a window, so every counter is empty again at most 60 s after it was first used.

Permissions of people and tokens.

A caller is a person with a role or a token with scopes. A rule names the least role and the
scopes that a call needs; calls that no rule allows are refused.
"""

import base64
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from web.rules.errors import Invalid

# Extract the token from an Authorization header.


class MalformedCredentials(ValueError):
    """The header is neither a bearer token nor Basic with one."""


def token_in(header: str) -> str | None:
    """Return the token in an Authorization header, or None without one.

    Raises:
        MalformedCredentials: If the Basic credentials cannot be decoded.
    """
    kind, _, value = header.strip().partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except ValueError as error:  # invalid base64, ASCII or UTF-8
        raise MalformedCredentials("the Basic credentials are not base64 of user:token") from error
    _, colon, password = pair.partition(":")
    if not colon:
        raise MalformedCredentials("the Basic credentials have no colon")
    return password


WINDOW_SECONDS: Final = 60
ATTEMPTS_PER_NAME_AND_PLACE: Final = 5
ATTEMPTS_PER_NAME: Final = 20
ATTEMPTS_PER_ADDRESS: Final = 20
# A household or a virtual machine usually owns a whole /64.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCounter:
    """One counter of attempts and its limit."""

    key: str
    limit: int


def counters(*, name: str, address: str, browser: str = "") -> list[LoginCounter]:
    """Return the counters of an attempt.

    Args:
        name: User name as it was typed.
        address: IP address of the client.
        browser: Id of a browser that has signed in under this name before. Such a browser has a
            counter of its own and ignores the others: strangers cannot lock its owner out.
    """
    person = hashlib.sha256(unicodedata.normalize("NFKC", name).casefold().encode()).hexdigest()
    if browser:
        return [_counter("browser", person, browser, limit=ATTEMPTS_PER_NAME_AND_PLACE)]
    network = address
    with suppress(ValueError):
        parsed = ip_address(address)
        network = str(parsed)
        if isinstance(parsed, IPv6Address):
            mapped = parsed.ipv4_mapped
            network = str(mapped or ip_network((parsed, _IPV6_PREFIX), strict=False))
    return [
        _counter("name and address", person, network, limit=ATTEMPTS_PER_NAME_AND_PLACE),
        _counter("name", person, limit=ATTEMPTS_PER_NAME),
        _counter("address", network, limit=ATTEMPTS_PER_ADDRESS),
    ]


def _counter(*parts: str, limit: int) -> LoginCounter:
    # Hashed: a person may type a password into the field of the name.
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return LoginCounter(key=key, limit=limit)


# Rules for network addresses, without sockets.


class InvalidNetwork(Invalid):
    """An entry is neither an address nor a network."""

    field = "networks"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked(entries: Iterable[str]) -> list[str]:
    """Return addresses and networks in their shortest notation, without duplicates.

    Raises:
        InvalidNetwork: If an entry is neither; the message names it.
    """
    found = []
    for entry in entries:
        try:
            found.append(str(ip_network(entry.strip())))
        except ValueError as error:
            raise InvalidNetwork(
                f"{entry.strip()[:60]!r} is neither an address nor a network such as 10.0.0.0/8"
            ) from error
    return list(dict.fromkeys(found))


def is_within(address: str | None, networks: Iterable[str]) -> bool:
    """Return whether an address is in one of the networks; False without networks."""
    try:
        given = ip_address(address or "")
    except ValueError:
        return False
    # A dual-stack socket reports IPv4 addresses in IPv6 notation.
    mapped = getattr(given, "ipv4_mapped", None)
    known = given if mapped is None else mapped
    return any(known in ip_network(network) for network in networks)


class Role(IntEnum):
    """Role of a person; each role includes the ones below it."""

    ANONYMOUS = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


SCOPES: Final = ("trainer", "env", "worker", "read", "user", "metrics", "admin")
MACHINE_SCOPES: Final = frozenset({"trainer", "env", "worker"})

# The role that a token's owner must hold for a scope to count. `user` has the owner's role
# itself, and `admin` shrinks to that role. The machine scopes of an operator's token count for one
# run, which the operator created.
OWNER_ROLES: Final[Mapping[str, Role]] = {
    "trainer": Role.OPERATOR,
    "env": Role.OPERATOR,
    "worker": Role.OPERATOR,
    "metrics": Role.ADMIN,
    "admin": Role.ADMIN,
    "read": Role.VIEWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A person or a token that makes a request.

    `role` is that of a person; a token with the user scope has the role of its owner. `run` names
    the only run that a token is bound to, or is None; `run_uid` is its id. `suspended` holds the
    scopes of a token that its owner may not grant at present.
    """

    identity: str
    role: Role = Role.ANONYMOUS
    scopes: frozenset[str] = frozenset()
    run: str | None = None
    run_uid: str | None = None
    suspended: frozenset[str] = frozenset()

    def is_bound_elsewhere(self, run: str | None) -> bool:
        """Return whether the caller is bound to another run than that with this name or id."""
        return self.run is not None and (run is None or run not in (self.run, self.run_uid))

    @property
    def is_known(self) -> bool:
        """Whether the caller has a valid session or a token with any right."""
        return self.role > Role.ANONYMOUS or bool(self.scopes)


@dataclass(frozen=True, slots=True)
class Rule:
    """The least role, or else any one of the scopes, that a call needs.

    The scope `admin` passes every rule.
    """

    role: Role
    scopes: frozenset[str] = frozenset()

    def __or__(self, other: "Rule") -> "Rule":
        """Return the rule that accepts a caller if either rule does."""
        return Rule(min(self.role, other.role), self.scopes | other.scopes)

    def allows(self, caller: Caller, *, run: str | None = None) -> bool:
        """Return whether the caller passes for `run`, or for the whole deployment when None."""
        if caller.is_bound_elsewhere(run):
            return False
        return caller.role >= self.role or bool(caller.scopes & (self.scopes | {"admin"}))

    def refusal(self, caller: Caller, *, run: str | None = None) -> str:
        """Return the rights that the call needs and those that the caller has."""
        if caller.is_bound_elsewhere(run):
            target = f"run {run}" if run else "all runs"
            return f"This token is bound to run {caller.run}; the request is about {target}."
        role = f"the role {self.role.name.lower()}"
        if caller.identity.startswith("user:"):
            return f"This needs {role}; yours is {caller.role.name.lower()}."
        needed = " or ".join(sorted(self.scopes) or ["admin"])
        held = " and ".join(sorted(caller.scopes)) or "no scope in effect"
        if caller.suspended:
            lost = " and ".join(sorted(caller.suspended))
            held += f" ({lost} suspended: the role of its owner does not allow this)"
        return f"This needs a token with the scope {needed}, or {role}; this token has {held}."


READ: Final = Rule(Role.VIEWER, frozenset({"read"}))
OPERATE: Final = Rule(Role.OPERATOR)
ADMINISTER: Final = Rule(Role.ADMIN)
SAVE_VIEWS: Final = Rule(Role.VIEWER)


def act_as(*scopes: str) -> Rule:
    """Return the rule for tokens with one of `scopes`."""
    return Rule(Role.ADMIN, frozenset(scopes))


# Right of all machines of a run: to read its existence, state and settings.
KNOW_RUN: Final = READ | act_as(*MACHINE_SCOPES)


def grantable(scopes: Iterable[str], *, role: Role, is_own_run: bool) -> frozenset[str]:
    """Return those of `scopes` that a person may grant.

    Args:
        scopes: Scopes of a token.
        role: Role of the person.
        is_own_run: Whether the token is bound to a run that the person created.
    """
    return frozenset(
        scope
        for scope in scopes
        if role >= OWNER_ROLES.get(scope, 0)
        and (role >= Role.ADMIN or scope not in MACHINE_SCOPES or is_own_run)
    )


def token_caller(
    *,
    identity: str,
    scopes: Iterable[str],
    owner_role: Role | None,
    run: str | None,
    run_uid: str | None = None,
    is_own_run: bool = False,
) -> Caller:
    """Return a token as a caller.

    Args:
        identity: Name of the token in events and leases.
        scopes: Scopes that it was created with.
        owner_role: Present role of the person who created it; None for a token that the platform
            issued to itself.
        run: Name of the only run that it is bound to.
        run_uid: Id of that run.
        is_own_run: Whether its owner created that run.
    """
    granted = frozenset(scopes)
    if owner_role is None:
        return Caller(identity=identity, scopes=granted - {"user"}, run=run, run_uid=run_uid)
    live = grantable(granted, role=owner_role, is_own_run=is_own_run)
    has_role = "user" in granted or ("admin" in granted and "admin" not in live)
    return Caller(
        identity=identity,
        role=owner_role if has_role else Role.ANONYMOUS,
        scopes=live,
        run=run,
        run_uid=run_uid,
        suspended=granted - live,
    )


def may_read(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may read `run`, or all runs when None."""
    return READ.allows(caller, run=run)


def may_operate(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may create, start, pause or end runs."""
    return OPERATE.allows(caller, run=run)


def may_administer(caller: Caller, *, run: str | None = None) -> bool:
    """Return whether the caller may administer the server, or `run`."""
    return ADMINISTER.allows(caller, run=run)
