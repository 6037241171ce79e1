"""Show where everything is that a run has accepted."""

from dataclasses import asdict

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer import selectors
from buffer.api import messages
from buffer.core.fates import ItemKind
from runs import selectors as runs_selectors
from runs.api.bodies import answer
from runs.api.openapi import problems
from runs.api.permissions import Readers


class LedgerView(APIView):
    """The ledger of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="ledger_get",
        responses={200: messages.LedgerAnswer, **problems(401, 403, 404)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return accepted = queued + waiting + leased + served + dropped, for each kind."""
        found = runs_selectors.run_named(run)
        sides = {
            str(kind): messages.KindLedger(**asdict(side), balanced=side.balanced)
            for kind in ItemKind
            for side in [selectors.ledger(found.pk, kind)]
        }
        return answer(messages.LedgerAnswer(**sides))
