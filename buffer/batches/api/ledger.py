"""API views of a run's ledger and its selection bias."""

from dataclasses import asdict
from typing import Final

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import structs
from rest_framework.request import Request

from buffer.batches.queries import bias
from buffer.items.queries import counts, ledgers
from buffer.items.schemas import ledger_answers
from runs.access.api.permissions import Readers
from runs.lifecycle.queries.runs import readable_run
from web.http.bodies import answer, whole_number
from web.http.openapi import between
from web.http.views import ApiView
from web.snapshots import snapshot

DAY_SECONDS: Final = 86_400


class LedgerView(ApiView):
    """The ledger of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="ledger_get",
        responses={200: ledger_answers.LedgerAnswer},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the ledger.

        Accepted items by their current state; the terms sum to `accepted`.
        """
        found = readable_run(run)
        with snapshot():
            whole = counts.ledger_part(found.pk)
            parts = ledgers.ledgers_by_environment(found.pk)
        audit = ledgers.last_audit(found)
        return answer(
            ledger_answers.LedgerAnswer(
                **structs.asdict(whole),
                environments=[_environment_ledger(part) for part in parts],
                audited_at=audit.audited_at if audit else None,
            )
        )


def _environment_ledger(part: ledgers.EnvironmentLedger) -> ledger_answers.EnvironmentLedger:
    return ledger_answers.EnvironmentLedger(
        kind=part.kind.value,
        env_id=part.env_id,
        environment=part.environment,
        sequences=counts.kind_ledger(part.sequences),
        **structs.asdict(counts.kind_ledger(part.ledger)),
    )


class BiasView(ApiView):
    """The selection bias of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="bias_get",
        parameters=[
            OpenApiParameter(
                "window",
                between(1, 10_000 * DAY_SECONDS),
                description="Seconds; 86,400 by default.",
            )
        ],
        responses={200: ledger_answers.BiasAnswer},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the selection bias.

        Compares length, score and environment of recent items by their state.
        """
        window = whole_number(
            request, "window", default=DAY_SECONDS, at_least=1, at_most=10_000 * DAY_SECONDS
        )
        found = readable_run(run)
        shown = bias.bias_of(found, window_seconds=window or DAY_SECONDS)
        return answer(msgspec.convert(asdict(shown), ledger_answers.BiasAnswer))
