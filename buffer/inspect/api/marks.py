"""API views of tags and notes of groups, and of their removal from the queue."""

from typing import Annotated

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta, Struct
from rest_framework.request import Request

from buffer.inspect import schemas
from buffer.inspect.queries.group_contents import marks_of
from buffer.inspect.rules.marks import MarkChange
from buffer.inspect.schemas import GroupIds
from buffer.inspect.services import discard_groups, mark_groups
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators
from runs.lifecycle.queries import run_named
from web.http.bodies import answer, read
from web.http.views import ApiView


class MarksView(ApiView):
    """Tags and notes of a run's groups."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="marks_update",
        request=schemas.MarkGroups,
        responses={200: schemas.MarkedGroups},
        tags=["groups"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Mark trajectory groups.

        Adds or removes tags, or sets the note, of up to 200 groups; earlier values are kept in the
        audit log.
        """
        body = read(request, schemas.MarkGroups)
        ids = mark_groups(
            run_id=run_named(run).pk,
            group_ids=body.groups,
            change=MarkChange.checked(
                add_tags=body.add_tags,
                remove_tags=body.remove_tags,
                note=None if body.note is msgspec.UNSET else body.note,
            ),
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        marks = marks_of(ids)
        results = [schemas.MarkedGroup(id=group, mark=marks.get(group)) for group in ids]
        return answer(schemas.MarkedGroups(results=results))


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
