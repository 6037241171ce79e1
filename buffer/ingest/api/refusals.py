"""Count refused pushes by reason, for their environments or their run."""

import re
from collections import Counter
from typing import Final

import msgspec
from django.http import HttpResponse, UnreadablePostError
from django.utils import timezone
from msgspec import Struct

from buffer.ingest.schemas.bodies import InvalidBody
from buffer.ingest.schemas.groups import Group
from buffer.ingest.services.idempotency import ClientLeft
from runs.lifecycle.models import Run
from runs.lifecycle.services.refused_pushes import RefusedPush, record_refused_push
from web import outages
from web.http.views import ApiView
from web.rules.errors import ApiError, NotFound

# Per push; a list of groups may name one environment per group.
ENVIRONMENTS_AT_MOST: Final = 100
# Fields of the text of a body that no decoder reads: with NaN, lone surrogates, or cut off.
_ENV_ID: Final = re.compile(rb'"env_id"\s*:\s*"?(\d{1,10})')
_GROUP: Final = re.compile(rb'"tokens"\s*:')
_PUSH_PATH: Final = re.compile(
    r"/api/v1/runs/(?P<native>[^/]+)/(?:groups|captures/[^/]+/calls|capture-scores)"
    r"|(?:/atropos/(?P<atropos>[^/]+))?/scored_data(?:_list)?"
)


class _Named(Struct):
    """The only field read from a refused group."""

    env_id: int | str | None = None


class _Packed(Struct):
    """The only field read from a refused binary push."""

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
        # Callers without access are not counted. Outages and clients that left repeat the push.
        is_repeated = isinstance(exc, ClientLeft | UnreadablePostError) or outages.is_outage(exc)
        if response.status_code not in {401, 403, 404, 405} and not is_repeated:
            named = _named_by(self._readable_body()) if self._groups is None else self._groups
            run = self.kwargs.get("run") if self._found is None else self._found.pk
            record_refused_push(_refused(run, named, exc))
        return response

    def _readable_body(self) -> bytes:
        """Return the body; empty if reading it was refused."""
        try:
            return bytes(self.request.body)
        except Exception:  # noqa: BLE001 the refusal that is counted
            return b""


def count_refused_request(path: str, refusal: ApiError) -> None:
    """Count a push that was refused before a view, for example because of its length."""
    if isinstance(refusal, NotFound) or not (found := _PUSH_PATH.fullmatch(path)):
        return
    record_refused_push(_refused(found["native"] or found["atropos"], [], refusal))


def _refused(
    run: int | str | None, named: "list[_Named] | list[Group]", refusal: Exception
) -> RefusedPush:
    ids = Counter(
        int(one.env_id)
        for one in named
        if one.env_id is not None and (isinstance(one.env_id, int) or one.env_id.isdecimal())
    )
    known = sorted(env_id for env_id in ids if 0 <= env_id < 2**31)[:ENVIRONMENTS_AT_MOST]
    return RefusedPush(
        run=run,
        groups=max(1, len(named)),
        groups_by_env={env_id: ids[env_id] for env_id in known},
        reason=_reason_of(refusal),
        message=str(refusal),
        at=timezone.now(),
    )


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
        return _named_in_text(body)


def _named_in_text(body: bytes) -> list[_Named]:
    """Return the env ids in the text of a body that cannot be decoded, for each of its groups."""
    named = [_Named(env_id=int(found)) for found in _ENV_ID.findall(body)]
    return [*named, *(_Named() for _ in range(len(_GROUP.findall(body)) - len(named)))]
