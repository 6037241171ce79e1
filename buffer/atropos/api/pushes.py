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
from buffer.ingest.schemas.groups import Group, ScoredData
from buffer.ingest.schemas.groups_json import decode_group, decode_groups
from buffer.ingest.services.answered_pushes import answered
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.concurrent_pushes import SinglePush, accept_push
from buffer.ingest.services.groups import accept_groups
from buffer.ingest.services.idempotency import (
    Claim,
    PushKey,
    PushResult,
    run_idempotent,
    run_without_key,
)
from buffer.ingest.services.push_context import UnknownEnvironment
from buffer.items.api import ENVIRONMENTS
from buffer.items.queries import server_limits
from runs.access.api.identity import identity_of
from runs.lifecycle.queries import RunNotFound
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY, REF
from web.http.push_answers import PushAnswer, answer_of

SCORED_DATA: Final = REF.format(name="ScoredData")


class PushView(CountsRefusals, AtroposView):
    """Base of push views; stores each push exactly once."""

    rule = ENVIRONMENTS

    def rules(self) -> dict[str, Any]:
        """Return the limits and options with which groups are decoded."""
        run = self.find_run()
        return {
            "limits": server_limits(),
            "lenient": run.lenient,
            "advantages": run.advantages,
        }

    def accept(self, request: Request, groups: list[Group], *, many: bool) -> HttpResponse:
        """Store the groups of a push; for a repeated push, return its first answer."""
        run = self.find_run()
        self._groups = groups
        key = PushKey.of(request.headers.get("Idempotency-Key"), request.body)
        identity, tracked = identity_of(request), answer_of(request)
        claim = (
            Claim.of(tracked, identity=identity, body=request.body)
            if key is None and tracked is not None
            else None
        )
        now = claim.arrived_at if claim is not None else timezone.now()

        def push() -> list[Receipt]:
            return accept_groups(run=run, groups=groups, producer=identity, now=now, claim=claim)

        try:
            if claim is None:
                result = run_idempotent(
                    run_id=run.pk, key=key, now=now, push=push, kind=list[Receipt]
                )
            else:
                claim.run_id = run.pk
                result = run_without_key(claim=claim, push=push, kind=list[Receipt])
        except UnknownEnvironment as error:
            raise _unknown_environment(error, many=many) from error
        if claim is not None and tracked is not None:
            _end_with_answer(tracked, claim, result)
        return _response(result, many=many)


def _end_with_answer(tracked: PushAnswer, claim: Claim, result: PushResult[list[Receipt]]) -> None:
    """End the claim of a push once its answer is written."""
    tracked.on_end = partial(answered.record, claim.key, result.row_id)


def _unknown_environment(error: UnknownEnvironment, *, many: bool) -> InvalidBody:
    loc = ("body", error.index, "env_id") if many else ("body", "env_id")
    return InvalidBody([BodyProblem(loc, str(error), "unknown_environment")])


def _response(result: PushResult[list[Receipt]], *, many: bool) -> HttpResponse:
    message = _list_answer(result.receipt) if many else _answer(result.receipt[0])
    return answer(message, is_replayed=result.replayed)


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
        tracked = answer_of(request)
        if tracked is not None and "Idempotency-Key" not in request.headers:
            return self._accept_with_others(request, tracked)
        group = decode_group(request.body, **self.rules())
        return self.accept(request, [group], many=False)

    def _accept_with_others(self, request: Request, tracked: PushAnswer) -> HttpResponse:
        """Store a push without a key together with those that arrive at the same time."""
        identity = identity_of(request)
        push = SinglePush(
            body=request.body,
            producer=identity,
            now=tracked.arrived_at,
            claim=Claim.of(tracked, identity=identity, body=request.body),
        )
        try:
            result = run_without_key(
                claim=push.claim, push=partial(self._receipts, push), kind=list[Receipt]
            )
        except UnknownEnvironment as error:
            raise _unknown_environment(error, many=False) from error
        finally:
            self._found = push.run or self._found
            self._groups = None if push.group is None else [push.group]
        _end_with_answer(tracked, push.claim, result)
        return _response(result, many=False)

    def _receipts(self, push: SinglePush) -> list[Receipt]:
        """Store a push, and return the receipt of its group."""
        name = self.kwargs.get("run")
        receipt = accept_push(name, push)
        if receipt is None:
            # Creates the default run, or raises the error of a run that takes no groups.
            run = self.find_run()
            receipt = accept_push(name, push)
            if receipt is None:
                raise RunNotFound(f"{run.name} takes no trajectory groups")
        return [receipt]


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
