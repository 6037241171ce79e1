"""Say of a refused push why, in one word, and which environments it names."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from rest_framework.request import Request

from buffer import services
from buffer.storage import PayloadStorageDown
from buffer.wire import Group, InvalidBody, InvalidGroups
from runs.api.refusals import note_refused_push
from runs.core.call_digest import RefusedPush
from runs.models import Run
from runs.services.registry import RunIsOver

# Of one push; a list of groups may name as many as it has groups.
ENVIRONMENTS_AT_MOST: Final = 100
_REASONS: Final[dict[type[Exception], str]] = {
    InvalidGroups: "body_invalid",
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


class _Packed(Struct):
    """All that is read of a binary push that could not be."""

    groups: list[bytes]


def note_refusal(
    request: Request, run: Run, refusal: Exception, *, groups: Sequence[Group] | None
) -> None:
    """Have a refused push counted for the environments that it names, as far as it can be read.

    Args:
        request: With the push as its body.
        run: That it was meant for.
        refusal: Why it was refused.
        groups: What was read of it; None if that was why.
    """
    named = _named_by(request.body) if groups is None else groups
    if env_ids := _some(named):
        note_refused_push(
            request,
            RefusedPush(
                run_id=run.pk, env_ids=env_ids, reason=_reason_of(refusal), said=str(refusal)
            ),
        )


def _reason_of(refusal: Exception) -> str:
    """Return one of few words; of a body that is wrong, what is wrong with its first field."""
    if isinstance(refusal, InvalidBody):
        return refusal.problems[0].type if refusal.problems else "body_invalid"
    return _REASONS.get(type(refusal), "other")


def _named_by(body: bytes) -> list[_Named]:
    """Return what a body says of its groups' environments: JSON begins with a bracket."""
    try:
        if body.lstrip()[:1] in {b"{", b"["}:
            named = msgspec.json.decode(body, type=_Named | list[_Named])
            return named if isinstance(named, list) else [named]
        packed = msgspec.msgpack.decode(body, type=_Packed).groups
        return [msgspec.msgpack.decode(group, type=_Named) for group in packed]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _some(named: Iterable[_Named] | Sequence[Group]) -> tuple[int, ...]:
    found = {one.env_id for one in named if one.env_id is not None and 0 <= one.env_id < 2**31}
    return tuple(sorted(found)[:ENVIRONMENTS_AT_MOST])
