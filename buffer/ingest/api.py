"""API views that push trajectory groups and fragments; refused pushes are counted by reason."""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import msgspec
from django.http import HttpResponse, UnreadablePostError
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Struct
from rest_framework.request import Request

from buffer.ingest.schemas.bodies import InvalidBody, InvalidPush
from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.pushes_msgpack import decode_fragments, decode_json_push, decode_push
from buffer.ingest.services.idempotency import (
    Claim,
    ClientLeft,
    PushKey,
    PushResult,
    answered,
    run_idempotent,
)
from buffer.ingest.services.pushes import (
    UnknownEnvironment,
    accept_fragments,
    accept_groups,
    check_kind,
    decoding_options,
)
from buffer.items.queries import admission_remaining
from buffer.items.rules.states import ItemKind
from rolldeck.wire import FRAGMENTS_TYPE, GROUPS_TYPE, FragmentReceipt, GroupsReceipt
from runs.access.api.identity import identity_of
from runs.access.api.permissions import scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import run_named
from runs.lifecycle.services.refused_pushes import RefusedPush, record_refused_push
from web import outages
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, REF, msgpack_of, problems
from web.http.push_answers import answer_of
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
            named: list[_Named] | list[Group] | None = self._groups
            if named is None:
                body = b""
                with suppress(Exception):  # the error may be one of reading the body
                    body = bytes(self.request.body)
                named = _named_by(body)
            run = self.kwargs.get("run") if self._found is None else self._found.pk
            record_refused_push(_refused(run, named, exc))
        return response


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
    reason = refusal.code if isinstance(refusal, ApiError) else "other"
    if isinstance(refusal, InvalidBody):  # the type of its first field's error
        reason = refusal.problems[0].type if refusal.problems else "invalid_data"
    return RefusedPush(
        run=run,
        groups=max(1, len(named)),
        groups_by_env={env_id: ids[env_id] for env_id in known},
        reason=reason,
        message=str(refusal),
        at=timezone.now(),
    )


def _named_by(body: bytes) -> list[_Named]:
    """Return the env ids of a body's groups; JSON bodies begin with a bracket."""
    try:
        if body.lstrip()[:1] in {b"{", b"["}:
            named = msgspec.json.decode(body, type=_Named | list[_Named])
            return named if isinstance(named, list) else [named]
        packed = msgspec.msgpack.decode(body, type=_Packed).groups
        return [msgspec.msgpack.decode(group, type=_Named) for group in packed]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The ids in the text, and one without an id for each other group.
        in_text = [_Named(env_id=int(found)) for found in _ENV_ID.findall(body)]
        return [*in_text, *(_Named() for _ in range(len(_GROUP.findall(body)) - len(in_text)))]


R = TypeVar("R")
SCORED_DATA: Final = REF.format(name="ScoredData")


def push_once(
    request: Request,
    push: Callable[[Claim | None, datetime], R],
    kind: type[R],
    *,
    run_id: int = 0,
) -> PushResult[R]:
    """Store a push once: identified by its key, or by its bytes if its answer is tracked.

    Args:
        request: The request.
        push: Function that stores the push with a claim at a time, and returns its receipt.
        kind: Type of the receipt.
        run_id: The run; 0 if `push` finds it and completes the claim.
    """
    body = request.body
    key = PushKey.of(request.headers.get("Idempotency-Key"), body)
    tracked = None if key is not None else answer_of(request)
    claim = None
    if tracked is not None:
        claim = Claim.of(tracked, identity=identity_of(request), body=body)
        claim.run_id = run_id
    now = timezone.now() if claim is None else claim.arrived_at
    result = run_idempotent(
        run_id=run_id, key=key, claim=claim, now=now, push=partial(push, claim, now), kind=kind
    )
    if tracked is not None and claim is not None:
        tracked.on_end = partial(answered.record, claim.key, result.row_id)
    return result


class GroupPushView(CountsRefusals):
    """Push trajectory groups to a run."""

    serves_machines = True
    permission_classes = [scoped("env", "worker")]

    @extend_schema(
        operation_id="groups_push",
        request={
            GROUPS_TYPE: msgpack_of("GroupPush"),
            "application/json": {"type": "array", "minItems": 1, "items": {"$ref": SCORED_DATA}},
        },
        parameters=[IDEMPOTENCY_KEY],
        responses={200: GroupsReceipt, **problems(409, 413, 422, 429, 507)},
        tags=["groups"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Push trajectory groups.

        The body is msgpack, or a JSON list of groups in Atropos' form. Stores all or none. A
        repeated push with the same key gets the first answer.
        """
        self._found = found = run_named(run)
        check_kind(found, ItemKind.GROUPS)
        is_json = (request.content_type or "").partition(";")[0].strip() == "application/json"
        decode = decode_json_push if is_json else decode_push
        self._groups = groups = decode(request.body, **decoding_options(found))

        def push(claim: Claim | None, now: datetime) -> GroupsReceipt:
            producer = identity_of(request)
            receipts = accept_groups(
                run=found, groups=groups, producer=producer, now=now, claim=claim
            )
            dropped = Counter(str(one.dropped) for one in receipts if one.dropped is not None)
            return GroupsReceipt(
                received=len(receipts) - dropped.total(),
                buffered=sum(one.waiting_sequences is not None for one in receipts),
                dropped=dict(dropped),
                admission_remaining=admission_remaining(found.pk),
            )

        try:
            result = push_once(request, push, GroupsReceipt, run_id=found.pk)
        except UnknownEnvironment as error:
            raise InvalidPush(f"groups[{error.index}].env_id", str(error)) from error
        return answer(result.receipt, is_replayed=result.replayed)


class FragmentPushView(ApiView):
    """Push fragments to a run."""

    serves_machines = True
    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="fragments_push",
        request={FRAGMENTS_TYPE: msgpack_of("FragmentPush")},
        parameters=[IDEMPOTENCY_KEY],
        responses={200: FragmentReceipt, **problems(409, 413, 422, 429, 507)},
        tags=["fragments"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Push fragments.

        Stores all or none; repeated fragments are counted as duplicates.
        """
        found = run_named(run)
        fragments = decode_fragments(request.body)

        def push(_: Claim | None, now: datetime) -> FragmentReceipt:
            return accept_fragments(run=found, fragments=fragments, now=now)

        result = push_once(request, push, FragmentReceipt, run_id=found.pk)
        return answer(result.receipt, is_replayed=result.replayed)
