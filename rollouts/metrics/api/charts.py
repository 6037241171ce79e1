"""API of the annotations of charts."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.metrics.queries.charts import annotation_row, annotations
from rollouts.metrics.schemas import AnnotationRow, Annotations, NewAnnotation
from rollouts.metrics.services.charts import annotate, delete_annotation
from runs.access.api.identity import caller_of, identity_of
from runs.access.api.permissions import Readers, scoped
from runs.access.rules import OPERATE, may_operate
from runs.lifecycle.queries import readable_run_id, run_id_named
from web.http.bodies import InvalidBody, answer, read, reason_in
from web.http.openapi import REASON
from web.http.views import ApiView

EVENTS: Final = ("run", "fleet")


def _writers() -> object:
    """Return the permission to write, held by operators and trainers of the run."""
    return scoped("trainer", or_rule=OPERATE)()


class AnnotationsView(ApiView):
    """Annotations and changes of a run's charts."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: operators and trainers write, all readers of the run read."""
        return [_writers() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="annotations_list",
        parameters=[
            OpenApiParameter(
                "events",
                str,
                enum=EVENTS,
                description="Changes to return: `run` (default) for state, settings and epoch;"
                " `fleet` also for launches, ended workers and published versions, the newest 100"
                " of each.",
            )
        ],
        responses={200: Annotations},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List annotations.

        Annotations by users, and the changes of the run that charts show, oldest first.
        """
        events = request.query_params.get("events", EVENTS[0])
        if events not in EVENTS:
            raise InvalidBody("events", f"must be one of {', '.join(EVENTS)}")
        found = annotations(
            readable_run_id(run), asker=identity_of(request), with_fleet=events == "fleet"
        )
        return answer(found)

    @extend_schema(
        operation_id="annotations_create",
        request=NewAnnotation,
        responses={201: AnnotationRow},
        tags=["metrics"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Create an annotation.

        A short text at a point in time, a step or an amount.
        """
        actor = identity_of(request)
        row = annotate(
            run_id=run_id_named(run),
            body=read(request, NewAnnotation),
            actor=actor,
            now=timezone.now(),
        )
        return answer(annotation_row(row, names={}, asker=actor), status=201)


class AnnotationView(ApiView):
    """One annotation of a run's charts."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: all writers may delete their own; operators may delete any."""
        return [_writers()]

    @extend_schema(
        operation_id="annotations_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["metrics"],
    )
    def delete(self, request: Request, run: str, annotation: int) -> HttpResponse:
        """Delete an annotation.

        Allowed to its author and to operators.
        """
        delete_annotation(
            run_id=run_id_named(run),
            annotation_id=annotation,
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request), run=run),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)
