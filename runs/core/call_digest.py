"""Make few rows of many calls: all that went wrong, and one for each kind that went well."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

# Of one client, between two flushes. More are counted by the last one kept.
REFUSALS_KEPT: Final = 50
CLIENTS_KEPT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPush:
    """A push that named its environments and was refused."""

    run_id: int
    env_ids: tuple[int, ...]
    reason: str
    """One of few words."""
    said: str
    """The refusal in full, as the environment was told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the API as it was answered; `at` in seconds since 1970."""

    client: str
    at: float
    method: str
    path: str
    route: str
    status: int
    duration_ms: float
    replayed: bool = False
    content: bytes = b""
    """The answer, if it is a refusal."""
    stands_for: int = 1
    refused_push: RefusedPush | None = None

    @property
    def likeness(self) -> object:
        """What calls have in common that become one."""
        push = self.refused_push
        refused = push and (push.run_id, push.env_ids, push.reason)
        return self.method, self.route, self.status, refused

    @property
    def is_telling(self) -> bool:
        """Whether it is worth a row of its own: it was refused, or was a repetition."""
        return self.status >= 400 or self.replayed


def digest(calls: Iterable[Call]) -> list[Call]:
    """Return the calls to keep, oldest first; each says how many it stands for.

    Refusals and repeated pushes stay one by one, up to :data:`REFUSALS_KEPT` for each client.
    Successes of one client on one route become the slowest of them. What they stand for adds up
    to all that came in, but for clients beyond :data:`CLIENTS_KEPT`.
    """
    kept: dict[str, dict[object, Call]] = defaultdict(dict)
    for number, call in enumerate(calls):
        mine = kept.get(call.client)
        if mine is None and len(kept) >= CLIENTS_KEPT:
            continue
        mine = kept[call.client]
        is_alone = call.is_telling and sum(one.is_telling for one in mine.values()) < REFUSALS_KEPT
        key: object = number if is_alone else call.likeness
        before = mine.get(key)
        mine[key] = call if before is None else _together(before, call)
    found = [call for mine in kept.values() for call in mine.values()]
    return sorted(found, key=lambda call: call.at)


def _together(one: Call, other: Call) -> Call:
    slower = max(one, other, key=lambda call: call.duration_ms)
    return replace(slower, stands_for=one.stands_for + other.stands_for)
