"""API views that push trajectory groups and fragments."""

from collections import Counter
from functools import partial
from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.ingest.api.refusals import CountsRefusals
from buffer.ingest.schemas.bodies import InvalidPush
from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_msgpack import decode_json_push, decode_push
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.fragments import accept_fragments
from buffer.ingest.services.fragments import decode_push as decode_fragments
from buffer.ingest.services.groups import RunNotAccepting, accept_groups
from buffer.ingest.services.idempotency import PushKey, run_idempotent
from buffer.ingest.services.push_context import UnknownEnvironment
from buffer.items.queries import admission_remaining, server_limits
from rolldeck.wire import FRAGMENTS_TYPE, GROUPS_TYPE, FragmentReceipt, GroupsReceipt
from runs.access.api.identity import identity_of
from runs.access.api.permissions import scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import run_named
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, REF, msgpack_of, problems
from web.http.views import ApiView

SCORED_DATA: Final = REF.format(name="ScoredData")


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
        body = request.body
        self._found = found = run_named(run)
        if not found.takes_groups:
            raise RunNotAccepting(f"{run} takes fragments, not trajectory groups")
        self._groups = groups = _decoded(request, found)
        key = PushKey.of(request.headers.get("Idempotency-Key"), body)
        now = timezone.now()

        def push() -> GroupsReceipt:
            receipts = accept_groups(
                run=found, groups=groups, producer=identity_of(request), now=now
            )
            return _receipt(found, receipts)

        try:
            result = run_idempotent(
                run_id=found.pk, key=key, now=now, push=push, kind=GroupsReceipt
            )
        except UnknownEnvironment as error:
            raise InvalidPush(f"groups[{error.index}].env_id", str(error)) from error
        return answer(result.receipt, is_replayed=result.replayed)


def _decoded(request: Request, run: Run) -> list[Group]:
    """Return the groups of a push, in msgpack or JSON.

    Raises:
        InvalidPush: If a group is malformed.
    """
    is_json = (request.content_type or "").partition(";")[0].strip() == "application/json"
    decode = decode_json_push if is_json else decode_push
    return decode(
        request.body,
        limits=server_limits(),
        lenient=run.lenient,
        advantages=run.advantages,
    )


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
        body = request.body
        found = run_named(run)
        fragments = decode_fragments(body)
        key = PushKey.of(request.headers.get("Idempotency-Key"), body)
        now = timezone.now()

        push = partial(accept_fragments, run=found, fragments=fragments, now=now)
        result = run_idempotent(run_id=found.pk, key=key, now=now, push=push, kind=FragmentReceipt)
        return answer(result.receipt, is_replayed=result.replayed)
