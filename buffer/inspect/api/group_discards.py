"""API views that discard queued groups."""

from typing import Annotated

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta, Struct
from rest_framework.request import Request

from buffer.inspect.schemas import GroupIds
from buffer.inspect.services.discards import discard_groups
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators
from runs.lifecycle.queries import run_named
from web.http.bodies import answer, read
from web.http.views import ApiView


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
