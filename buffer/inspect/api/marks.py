"""API views of labels and notes of groups."""

from typing import Any, Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.inspect import schemas
from buffer.inspect.queries.marks import vocabulary
from buffer.inspect.services.marks import mark_groups, name_label
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import answer, read
from web.http.views import ApiView

ANSWERS: Final[dict[Any, Any]] = {200: schemas.MarkVocabulary}


class MarksView(ApiView):
    """Labels and notes of a run's groups."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers read, operators write."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(operation_id="marks_get", responses=ANSWERS, tags=["groups"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """List labels.

        With the number of groups of each.
        """
        return answer(vocabulary(readable_run(run).pk))

    @extend_schema(
        operation_id="marks_update",
        request=schemas.MarkGroups,
        responses=ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Mark trajectory groups.

        Labels or annotates up to 200 groups; earlier values are kept in the audit log.
        """
        body = read(request, schemas.MarkGroups)
        found = run_named(run)
        fields = {name: getattr(body, name) for name in ("label", "note")}
        mark_groups(
            run_id=found.pk,
            group_ids=body.groups,
            changes={name: value for name, value in fields.items() if value is not msgspec.UNSET},
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(vocabulary(found.pk))


class LabelView(ApiView):
    """One of the nine labels of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="labels_update", request=schemas.NameLabel, responses=ANSWERS, tags=["groups"]
    )
    def put(self, request: Request, run: str, label: int) -> HttpResponse:
        """Name a label.

        The name applies to this run.
        """
        body = read(request, schemas.NameLabel)
        found = run_named(run)
        name_label(
            run_id=found.pk,
            label=label,
            name=body.name,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(vocabulary(found.pk))
