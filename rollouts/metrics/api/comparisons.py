"""API of saved comparisons of runs."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rollouts.metrics.queries.comparisons import comparison, comparison_list, comparison_row
from rollouts.metrics.schemas.comparisons import ComparisonRow, Comparisons, SaveComparison
from rollouts.metrics.services.comparisons import delete_comparison, save_comparison
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.access.queries.audit import token_names
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class _ReadOrOperate(ApiView):
    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions to read and to change."""
        return [Readers() if self.request.method == "GET" else Operators()]


class ComparisonsView(_ReadOrOperate):
    """Saved comparisons."""

    @extend_schema(
        operation_id="comparisons_list",
        responses={200: Comparisons},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List comparisons.

        Newest first.
        """
        del request
        return answer(comparison_list())

    @extend_schema(
        operation_id="comparisons_create",
        request=SaveComparison,
        responses={201: ComparisonRow, **problems(409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Save a comparison.

        Visible to all users; its curves continue with their runs.
        """
        actor = identity_of(request)
        row = save_comparison(body=read(request, SaveComparison), actor=actor, now=timezone.now())
        return answer(comparison_row(row, names=token_names([actor])), status=201)


class ComparisonView(_ReadOrOperate):
    """One comparison."""

    @extend_schema(
        operation_id="comparisons_get",
        responses={200: ComparisonRow},
        tags=["runs"],
    )
    def get(self, request: Request, comparison: int) -> HttpResponse:
        """Get a comparison."""
        del request
        return answer(_found(comparison))

    @extend_schema(
        operation_id="comparisons_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["runs"],
    )
    def delete(self, request: Request, comparison: int) -> HttpResponse:
        """Delete a comparison.

        Its runs are not changed.
        """
        delete_comparison(
            comparison_id=comparison,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


def _found(comparison_id: int) -> ComparisonRow:
    return comparison(comparison_id)
