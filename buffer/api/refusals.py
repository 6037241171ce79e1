"""Say of a refused push why, in one word, and which environments it names."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from buffer import services
from buffer.storage import PayloadStorageDown
from buffer.wire import Group, InvalidBody
from runs.services.registry import RunIsOver

# Of one push; a list of groups may name as many as it has groups.
ENVIRONMENTS_AT_MOST: Final = 100
_REASONS: Final[dict[type[Exception], str]] = {
    services.RunNotAccepting: "run_takes_nothing",
    RunIsOver: "run_takes_nothing",
    services.InvalidKey: "key_invalid",
    services.KeyInFlight: "key_in_flight",
    services.KeyReused: "key_reused",
    services.QueueFull: "queue_full",
    services.DiskFull: "disk_full",
    PayloadStorageDown: "storage_down",
}


class _Named(Struct):
    """All that is read of a group that could not be."""

    env_id: int | None = None


def reason_of(refusal: Exception) -> str:
    """Return one of few words; of a body that is wrong, what is wrong with its first field."""
    if isinstance(refusal, InvalidBody):
        return refusal.problems[0].type if refusal.problems else "body_invalid"
    return _REASONS.get(type(refusal), "other")


def named_environments(groups: Sequence[Group] | None, body: bytes) -> tuple[int, ...]:
    """Return the environments that a push names, as far as it can be read."""
    if groups is None:
        try:
            named = msgspec.json.decode(body, type=_Named | list[_Named])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ()
        return _some(named if isinstance(named, list) else [named])
    return _some(groups)


def _some(named: Iterable[_Named] | Sequence[Group]) -> tuple[int, ...]:
    found = {one.env_id for one in named if one.env_id is not None and 0 <= one.env_id < 2**31}
    return tuple(sorted(found)[:ENVIRONMENTS_AT_MOST])
