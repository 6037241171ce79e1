"""Count refused pushes by reason, for their environments or their run."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.utils import timezone
from msgspec import Struct

from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.schemas.groups import Group
from buffer.ingest.services.idempotency import ClientLeft
from runs.lifecycle.models.runs import Run
from runs.lifecycle.services.refused_pushes import RefusedPush, record_refused_push
from web.http.views import ApiView
from web.rules.errors import ApiError

# Per push; a list of groups may name one environment per group.
ENVIRONMENTS_AT_MOST: Final = 100


class _Named(Struct):
    """The only field read from a malformed group."""

    env_id: int | None = None


class _Packed(Struct):
    """The only field read from a malformed binary push."""

    groups: list[bytes]


class CountsRefusals(ApiView):
    """Base of views that accept groups; counts refused pushes."""

    _found: Run | None = None
    """Target run of the push; None until it is known."""
    _groups: list[Group] | None = None
    """Decoded groups of the push; None if decoding failed."""

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        """Return the error, and count the refusal for the environments that the push names."""
        response = super().handle_exception(exc)
        # A bad request ended before its body was complete. A client that left repeats its push.
        if self._found is not None and not isinstance(exc, BadRequest | ClientLeft):
            named = _named_by(self.request.body) if self._groups is None else self._groups
            push = RefusedPush(
                run_id=self._found.pk,
                env_ids=_some(named),
                reason=_reason_of(exc),
                message=str(exc),
                at=timezone.now(),
            )
            record_refused_push(push)
        return response


def _reason_of(refusal: Exception) -> str:
    """Return the code of the error; for an invalid body, the error type of its first field."""
    if isinstance(refusal, InvalidBody):
        return refusal.problems[0].type if refusal.problems else "invalid_data"
    return refusal.code if isinstance(refusal, ApiError) else "other"


def _named_by(body: bytes) -> list[_Named]:
    """Return the env ids of a body's groups; JSON bodies begin with a bracket."""
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
