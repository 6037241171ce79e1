"""API views that push trajectory groups and fragments."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.ingest.api.refusals import CountsRefusals
from buffer.ingest.schemas.bodies import InvalidPush
from buffer.ingest.schemas.pushes_msgpack import decode_fragments, decode_json_push, decode_push
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.idempotency import (
    Claim,
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
)
from buffer.items.queries import admission_remaining, server_limits
from buffer.items.rules.states import ItemKind
from rolldeck.wire import FRAGMENTS_TYPE, GROUPS_TYPE, FragmentReceipt, GroupsReceipt
from runs.access.api.identity import identity_of
from runs.access.api.permissions import scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import run_named
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, REF, msgpack_of, problems
from web.http.push_answers import answer_of
from web.http.views import ApiView

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


def decoding_rules(run: Run) -> dict[str, Any]:
    """Return the limits and options with which the groups of a run are decoded."""
    return {"limits": server_limits(), "lenient": run.lenient, "advantages": run.advantages}


class GroupPushView(CountsRefusals):
    """Push trajectory groups to a run."""

    permission_classes = [scoped("env", "worker")]

    @extend_schema(
        operation_id="groups_push",
        request={
            GROUPS_TYPE: msgpack_of("GroupPush"),
            "application/json": {"type": "array", "minItems": 1, "items": {"$ref": SCORED_DATA}},
        },
        parameters=[IDEMPOTENCY_KEY],
        responses={200: GroupsReceipt, **problems(409, 413, 422, 503, 507)},
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
        self._groups = groups = decode(request.body, **decoding_rules(found))

        def push(claim: Claim | None, now: datetime) -> GroupsReceipt:
            producer = identity_of(request)
            return _receipt(
                found,
                accept_groups(run=found, groups=groups, producer=producer, now=now, claim=claim),
            )

        try:
            result = push_once(request, push, GroupsReceipt, run_id=found.pk)
        except UnknownEnvironment as error:
            raise InvalidPush(f"groups[{error.index}].env_id", str(error)) from error
        return answer(result.receipt, is_replayed=result.replayed)


def _receipt(run: Run, receipts: list[Receipt]) -> GroupsReceipt:
    dropped = Counter(str(receipt.dropped) for receipt in receipts if receipt.dropped is not None)
    return GroupsReceipt(
        received=len(receipts) - dropped.total(),
        buffered=sum(receipt.waiting_sequences is not None for receipt in receipts),
        dropped=dict(dropped),
        admission_remaining=admission_remaining(run.pk),
    )


class FragmentPushView(ApiView):
    """Push fragments to a run."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="fragments_push",
        request={FRAGMENTS_TYPE: msgpack_of("FragmentPush")},
        parameters=[IDEMPOTENCY_KEY],
        responses={200: FragmentReceipt, **problems(409, 413, 422, 503, 507)},
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
