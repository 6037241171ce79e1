"""API views for pushes of the Atropos trajectory API."""

from collections import Counter
from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request

from buffer.atropos import schemas as messages
from buffer.atropos.api.view import PUSH_REFUSED, AtroposView, atropos_schema
from buffer.ingest.api.refusals import CountsRefusals
from buffer.ingest.schemas.bodies import BodyProblem, InvalidBody
from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group, decode_groups
from buffer.ingest.schemas.scored_data import ScoredData
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.delivered_answers import deliveries
from buffer.ingest.services.groups import accept_groups
from buffer.ingest.services.idempotency import (
    Claim,
    ImplicitKey,
    PushKey,
    run_idempotent,
    run_without_key,
)
from buffer.ingest.services.push_context import (
    PushContext,
    UnknownEnvironment,
    push_context_for_one,
)
from buffer.items.api.callers import ENVIRONMENTS
from buffer.items.api.delivery import delivery_of
from buffer.items.queries.counts import limits
from runs.access.api.identity import identity_of
from runs.lifecycle.models.runs import Run
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, REF

SCORED_DATA: Final = REF.format(name="ScoredData")


class PushView(CountsRefusals, AtroposView):
    """Base of push views; stores each push exactly once."""

    rule = ENVIRONMENTS
    _context: PushContext | None = None

    def rules(self) -> dict[str, Any]:
        """Return the limits and options with which groups are decoded."""
        run = self.find_run()
        return {
            "limits": limits(),
            "lenient": run.lenient,
            "advantages": run.advantages,
        }

    def accept(self, request: Request, groups: list[Group], *, many: bool) -> HttpResponse:
        """Store the groups of a push; for a repeated push, return its first answer."""
        run = self.find_run()
        self._groups = groups
        body = request.body
        key = PushKey.of(request.headers.get("Idempotency-Key"), body)
        identity, now = identity_of(request), timezone.now()

        def push(claim: Claim | None = None) -> list[Receipt]:
            return accept_groups(
                run=run,
                groups=groups,
                producer=identity,
                now=now,
                claim=claim,
                context=self._context,
            )

        delivery = delivery_of(request)
        try:
            if key is not None or delivery is None:
                result = run_idempotent(
                    run_id=run.pk, key=key, now=now, push=push, kind=list[Receipt]
                )
            else:
                keyless = ImplicitKey.of(run_id=run.pk, identity=identity, body=body)
                claim = Claim(keyless, now=now)
                result = run_without_key(claim=claim, push=partial(push, claim), kind=list[Receipt])
                delivery.on_sent = partial(deliveries.record_sent, keyless.key, result.row_id)
                delivery.on_read = partial(deliveries.note, keyless.key, result.row_id)
        except UnknownEnvironment as error:
            loc = ("body", error.index, "env_id") if many else ("body", "env_id")
            problem = BodyProblem(loc, str(error), "unknown_environment")
            raise InvalidBody([problem]) from error
        atropos_answer = _list_answer(result.receipt) if many else _answer(result.receipt[0])
        return answer(atropos_answer, is_replayed=result.replayed)


def _answer(receipt: Receipt) -> messages.PushAnswer:
    if receipt.waiting_sequences is None:
        return messages.PushAnswer(status="received", dropped=_dropped([receipt]))
    return messages.PushAnswer(status="buffered", buffer_size=receipt.waiting_sequences)


def _dropped(receipts: list[Receipt]) -> dict[str, int] | None:
    reasons = Counter(str(r.dropped) for r in receipts if r.dropped is not None)
    return dict(reasons) or None


def _list_answer(receipts: list[Receipt]) -> messages.PushAnswer:
    buffered = [r.waiting_sequences for r in receipts if r.waiting_sequences is not None]
    return messages.PushAnswer(
        status="received",
        groups_processed=len(receipts),
        buffered=len(buffered) or None,
        last_buffer_size=buffered[-1] if buffered else None,
        dropped=_dropped(receipts),
    )


class ScoredDataView(PushView):
    """Push of one group."""

    @atropos_schema(
        request=ScoredData,
        parameters=[IDEMPOTENCY_KEY],
        responses={200: messages.PushAnswer, **PUSH_REFUSED},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Push a trajectory group.

        A group smaller than its environment's group size waits for others.
        """
        group = decode_group(request.body, **self.rules())
        return self.accept(request, [group], many=False)

    def _find(self) -> Run:
        self._context = push_context_for_one(self.kwargs.get("run"))
        return super()._find() if self._context is None else self._context.run


class ScoredDataListView(PushView):
    """Push of several groups."""

    @atropos_schema(
        request={"application/json": {"type": "array", "items": {"$ref": SCORED_DATA}}},
        parameters=[IDEMPOTENCY_KEY],
        responses={200: messages.PushAnswer, **PUSH_REFUSED},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Push several trajectory groups.

        All or none.
        """
        groups = decode_groups(request.body, **self.rules())
        return self.accept(request, groups, many=True)
