"""API view that sets the sampling priorities of fragments."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.items.rules.states import batch_id_of
from buffer.replay import schemas
from buffer.replay.services import update_priorities
from runs.access.api.permissions import scoped
from runs.lifecycle.queries import run_named
from web.http.bodies import answer, read
from web.http.views import ApiView


class PrioritiesView(ApiView):
    """The priorities of a run's fragments."""

    permission_classes = [scoped("trainer")]
    serves_machines = True

    @extend_schema(
        operation_id="fragments_priorities",
        request=schemas.UpdatePriorities,
        responses={200: schemas.PrioritiesUpdated},
        tags=["fragments"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Set fragment priorities.

        All or none.
        """
        body = read(request, schemas.UpdatePriorities)
        found = run_named(run)
        updated = update_priorities(
            run_id=found.pk,
            priorities={update.id: update.priority for update in body.updates},
            batch_id=None if body.batch is None else batch_id_of(body.batch),
        )
        return answer(schemas.PrioritiesUpdated(updated=updated))
