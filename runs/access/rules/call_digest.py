"""Compress API calls into few rows: one per failure, one per kind of success."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

# Per client, between two flushes. Further refusals add to the last one kept.
REFUSALS_KEPT: Final = 50
CLIENTS_KEPT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPush:
    """A refused push that named its environments."""

    run_id: int
    env_ids: tuple[int, ...]
    reason: str
    """Code of the error, or error type of the first invalid field."""
    said: str
    """The full refusal as sent to the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One answered API call; `at` in seconds since 1970."""

    client: str
    at: float
    method: str
    path: str
    route: str
    status: int
    duration_ms: float
    replayed: bool = False
    content: bytes = b""
    """The response body of a refusal."""
    stands_for: int = 1
    refused_push: RefusedPush | None = None

    @property
    def likeness(self) -> object:
        """Key shared by calls that are merged into one."""
        push = self.refused_push
        refused = push and (push.run_id, push.env_ids, push.reason)
        return self.method, self.route, self.status, refused

    @property
    def is_telling(self) -> bool:
        """Whether the call deserves its own row: it was refused, or replayed."""
        return self.status >= 400 or self.replayed


def digest(calls: Iterable[Call]) -> list[Call]:
    """Return the calls to keep, oldest first; each carries the number it stands for.

    Refusals and replayed pushes stay separate, up to :data:`REFUSALS_KEPT` per client. The
    successes of one client on one route are merged into the slowest of them. The numbers add up to
    all calls, except for clients beyond :data:`CLIENTS_KEPT`.
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
