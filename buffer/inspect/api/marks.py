"""API views of labels and notes of groups, and of their removal from the queue."""

from typing import Annotated, Any, Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta, Struct
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.inspect import schemas
from buffer.inspect.queries.group_contents import vocabulary
from buffer.inspect.schemas import GroupIds
from buffer.inspect.services import discard_groups, mark_groups, name_label
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import answer, read
from web.http.views import ApiView

ANSWERS: Final[dict[Any, Any]] = {200: schemas.MarkVocabulary}


class MarksView(ApiView):
    """Labels and notes of a run's groups."""

    def get_permissions(self) -> list[BasePermission]:
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


class DiscardGroups(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups to discard."""

    groups: GroupIds
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class DiscardOutcome(Struct, frozen=True, kw_only=True):
    """Result for one group."""

    id: int
    problem: str
    """Reason why the group was not discarded; empty on success."""


class DiscardedGroups(Struct, frozen=True, kw_only=True):
    """Results of a discard, ordered by group id."""

    results: list[DiscardOutcome]


class GroupDiscardsView(ApiView):
    """Discard of groups by an operator."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="groups_discard",
        request=DiscardGroups,
        responses={200: DiscardedGroups},
        tags=["groups"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Discard trajectory groups.

        Drops up to 200 queued or waiting groups permanently; the result of each is
        returned.

        Their rows and bytes are kept until retention removes them.
        """
        body = read(request, DiscardGroups)
        refused = discard_groups(
            run_id=run_named(run).pk,
            group_ids=body.groups,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(
            DiscardedGroups(
                results=[
                    DiscardOutcome(id=group, problem=refused.get(group, ""))
                    for group in sorted(set(body.groups))
                ]
            )
        )
