"""API views for pushes of the Atropos trajectory API."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from buffer.atropos import schemas as messages
from buffer.atropos.api.view import PUSH_REFUSED, AtroposView, atropos_schema
from buffer.ingest.api import SCORED_DATA, CountsRefusals, push_once
from buffer.ingest.schemas.bodies import BodyProblem, InvalidBody
from buffer.ingest.schemas.groups import Group, ScoredData
from buffer.ingest.schemas.groups_json import decode_group, decode_groups
from buffer.ingest.services.arrivals import Receipt
from buffer.ingest.services.concurrent_pushes import SinglePush, accept_push
from buffer.ingest.services.idempotency import Claim
from buffer.ingest.services.pushes import (
    UnknownEnvironment,
    accept_groups,
    decoding_options,
)
from buffer.items.api import ENVIRONMENTS
from runs.access.api.identity import identity_of
from runs.lifecycle.queries import RunNotFound
from web.http.bodies import answer
from web.http.openapi import IDEMPOTENCY_KEY
from web.http.push_answers import answer_of


class PushView(CountsRefusals, AtroposView):
    """Base of push views; stores each push exactly once."""

    rule = ENVIRONMENTS
    many: ClassVar[bool] = False
    """Whether the body is a list of groups."""

    def accept(self, request: Request, decode: Callable[..., list[Group]]) -> HttpResponse:
        """Store the groups of a push; for a repeated push, return its first answer."""
        push: Callable[[Claim | None, datetime], list[Receipt]]
        has_key = "Idempotency-Key" in request.headers
        if not self.many and not has_key and answer_of(request) is not None:
            # Stored together with others that arrive at the same time.
            run_id, push = 0, self._push_with_others
        else:
            run = self.find_run()
            self._groups = decode(request.body, **decoding_options(run))
            run_id, push = run.pk, self._push
        try:
            result = push_once(request, push, list[Receipt], run_id=run_id)
        except UnknownEnvironment as error:
            loc = ("body", error.index, "env_id") if self.many else ("body", "env_id")
            problem = BodyProblem(loc, str(error), "unknown_environment")
            raise InvalidBody([problem]) from error
        receipts = result.receipt
        reasons = Counter(str(one.dropped) for one in receipts if one.dropped is not None)
        dropped = dict(reasons) or None
        sizes = [one.waiting_sequences for one in receipts if one.waiting_sequences is not None]
        if self.many:
            message = messages.PushAnswer(
                status="received",
                groups_processed=len(receipts),
                buffered=len(sizes) or None,
                last_buffer_size=sizes[-1] if sizes else None,
                dropped=dropped,
            )
        elif sizes:
            message = messages.PushAnswer(status="buffered", buffer_size=sizes[0])
        else:
            message = messages.PushAnswer(status="received", dropped=dropped)
        return answer(message, is_replayed=result.replayed)

    def _push(self, claim: Claim | None, now: datetime) -> list[Receipt]:
        return accept_groups(
            run=self.find_run(),
            groups=self._groups or [],
            producer=identity_of(self.request),
            now=now,
            claim=claim,
        )

    def _push_with_others(self, claim: Claim | None, _: datetime) -> list[Receipt]:
        assert claim is not None  # noqa: S101 the answer is tracked
        name = self.kwargs.get("run")
        push = SinglePush(body=self.request.body, producer=identity_of(self.request), claim=claim)
        try:
            receipt = accept_push(name, push)
            if receipt is None:
                # Creates the default run, or raises the error of a run that takes no groups.
                run = self.find_run()
                receipt = accept_push(name, push)
                if receipt is None:
                    raise RunNotFound(f"{run.name} takes no trajectory groups")
        finally:
            self._found = push.run or self._found
            self._groups = None if push.group is None else [push.group]
        return [receipt]


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
        return self.accept(request, lambda body, **rules: [decode_group(body, **rules)])


class ScoredDataListView(PushView):
    """Push of several groups."""

    many = True

    @atropos_schema(
        request={"application/json": {"type": "array", "items": {"$ref": SCORED_DATA}}},
        parameters=[IDEMPOTENCY_KEY],
        responses={200: messages.PushAnswer, **PUSH_REFUSED},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Push several trajectory groups.

        All or none.
        """
        return self.accept(request, decode_groups)
