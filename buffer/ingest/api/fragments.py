"""API view that pushes fragments."""

from functools import partial

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.ingest.services.fragments import accept_fragments, decode_push
from buffer.ingest.services.idempotency import PushKey, run_idempotent
from rolldeck.wire import FRAGMENTS_TYPE, FragmentReceipt
from runs.access.api.permissions import scoped
from runs.lifecycle.queries.runs import run_named
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, msgpack_of, problems
from web.http.views import ApiView


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
        fragments = decode_push(body)
        key = PushKey.of(request.headers.get("Idempotency-Key"), body)
        now = timezone.now()

        push = partial(accept_fragments, run=found, fragments=fragments, now=now)
        result = run_idempotent(run_id=found.pk, key=key, now=now, push=push, kind=FragmentReceipt)
        return answer(result.receipt, is_replayed=result.replayed)
