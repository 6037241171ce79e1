"""API views that push and list fragments."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer import services
from buffer.api import fragment_lists
from buffer.api.fragment_messages import FragmentList
from rolldeck.wire import FRAGMENTS_TYPE, FragmentReceipt
from runs import selectors as runs_selectors
from runs.api.openapi import IDEMPOTENCY_KEY, msgpack_of, problems
from runs.api.permissions import Readers, scoped


class FragmentsView(APIView):
    """The fragments of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers list, workers push."""
        return [scoped("worker")() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="fragments_list",
        parameters=fragment_lists.FILTERS,
        responses={200: FragmentList, **problems(503)},
        tags=["fragments"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List fragments.

        Fragments with stored bytes, newest first.
        """
        return fragment_lists.listed(request, run)

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
        found = runs_selectors.run_named(run)
        fragments = services.decode_push(body)
        key = services.PushKey.of(request.headers.get("Idempotency-Key"), body)
        now = timezone.now()

        def push() -> dict[str, Any]:
            receipt = services.accept_fragments(run=found, fragments=fragments, now=now)
            answer: dict[str, Any] = msgspec.to_builtins(receipt)
            return answer

        answer = services.once(run_id=found.pk, key=key, now=now, push=push)
        headers = {"Idempotent-Replayed": "true"} if answer.replayed else {}
        return HttpResponse(
            msgspec.json.encode(answer.content), content_type="application/json", headers=headers
        )
