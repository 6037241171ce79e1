"""API views that push and list trajectory groups."""

from collections import Counter
from typing import Any, Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer import selectors, services
from buffer.api import group_lists
from buffer.api.group_messages import GroupList
from buffer.api.refusals import CountsRefusals
from buffer.wire import Group, InvalidGroups, decode_json_push, decode_push
from rolldeck.wire import GROUPS_TYPE, GroupsReceipt
from runs import selectors as runs_selectors
from runs.api.identity import identity_of
from runs.api.openapi import IDEMPOTENCY_KEY, REF, between, msgpack_of, problems
from runs.api.permissions import Readers, scoped
from runs.models import Run

SCORED_DATA: Final = REF.format(name="ScoredData")


class GroupsView(CountsRefusals):
    """The trajectory groups of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers list; environments and workers push."""
        is_push = self.request.method == "POST"
        return [scoped("env", "worker")() if is_push else Readers()]

    @extend_schema(
        operation_id="groups_list",
        parameters=[
            *group_lists.FILTERS,
            OpenApiParameter("cursor", OpenApiTypes.STR),
            OpenApiParameter("limit", between(1, group_lists.PAGE_AT_MOST)),
            OpenApiParameter("backward", OpenApiTypes.BOOL),
        ],
        responses={200: GroupList, **problems(503)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List trajectory groups.

        Metadata only; newest first, or by score or length.
        """
        return group_lists.listed(request, run)

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
        self._found = found = runs_selectors.run_named(run)
        if not found.takes_groups:
            raise services.RunNotAccepting(f"{run} takes fragments, not trajectory groups")
        self._groups = groups = _decoded(request, found)
        key = services.PushKey.of(request.headers.get("Idempotency-Key"), body)
        now = timezone.now()

        def push() -> dict[str, Any]:
            receipts = services.accept_groups(
                run=found, groups=groups, producer=identity_of(request), now=now
            )
            answer: dict[str, Any] = msgspec.to_builtins(_receipt(found, receipts))
            return answer

        try:
            answer = services.once(run_id=found.pk, key=key, now=now, push=push)
        except services.UnknownEnvironment as error:
            raise InvalidGroups(f"groups[{error.index}].env_id", str(error)) from error
        headers = {"Idempotent-Replayed": "true"} if answer.replayed else {}
        return HttpResponse(
            msgspec.json.encode(answer.content), content_type="application/json", headers=headers
        )


def _decoded(request: Request, run: Run) -> list[Group]:
    """Return the groups of a push, in msgpack or JSON.

    Raises:
        InvalidGroups: If a group is malformed.
    """
    is_json = (request.content_type or "").partition(";")[0].strip() == "application/json"
    decode = decode_json_push if is_json else decode_push
    return decode(
        request.body,
        limits=selectors.limits(),
        lenient=run.lenient,
        advantages=run.advantages,
    )


def _receipt(run: Run, receipts: list[services.Receipt]) -> GroupsReceipt:
    dropped = Counter(str(receipt.dropped) for receipt in receipts if receipt.dropped is not None)
    return GroupsReceipt(
        received=len(receipts) - dropped.total(),
        buffered=sum(receipt.waiting_sequences is not None for receipt in receipts),
        dropped=dict(dropped),
        admission_remaining=selectors.admission_remaining(run.pk),
    )
