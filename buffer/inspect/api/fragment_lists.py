"""Read-only API views of fragments: lists, details and steps; and the newest items of a run."""

from typing import Final

import msgspec
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import Struct
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.ingest.api import FragmentPushView
from buffer.inspect.api.group_lists import PAGE_AT_MOST, filter_of, summaries
from buffer.inspect.queries import fragment_lists, group_contents, group_lists
from buffer.inspect.queries.fragment_lists import BYTES_OF_EPISODE_AT_MOST, EpisodeSearch
from buffer.inspect.rules.fragment_views import (
    MOST_STEPS,
    FragmentUnreadable,
    StepWindow,
    content_of,
    window,
)
from buffer.inspect.rules.group_filter import GroupFilter
from buffer.inspect.schemas import (
    FragmentDetail,
    FragmentList,
    FragmentRow,
    FragmentSummary,
    GroupSummary,
)
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing
from runs.access.api.permissions import Readers, scoped
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.queries import readable_run
from web.http.bodies import answer, whole_number
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

FILTERS: Final = [
    *(OpenApiParameter(name, OpenApiTypes.STR, many=True) for name in ("worker", "state")),
    *(OpenApiParameter(f"version_{end}", OpenApiTypes.NUMBER) for end in ("min", "max")),
    OpenApiParameter("batch", OpenApiTypes.STR),
    OpenApiParameter("q", OpenApiTypes.STR, description="Prefix of the slot's name."),
    OpenApiParameter(
        "episode",
        OpenApiTypes.STR,
        description="Only the fragments that hold this episode: its slot, a slash and its number.",
    ),
    *page_parameters(default=50, most=PAGE_AT_MOST),
]


class FragmentsView(FragmentPushView):
    """The fragments of a run."""

    serves_machines = True

    def get_permissions(self) -> list[BasePermission]:
        return [scoped("worker")() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="fragments_list",
        parameters=FILTERS,
        responses={200: FragmentList, **problems(503)},
        tags=["fragments"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List fragments.

        Fragments with stored bytes, newest first.
        """
        found = readable_run(run)
        group_filter = filter_of(request)
        page_request = page_of(request, int, default=50, most=PAGE_AT_MOST)
        search = EpisodeSearch(found.pk, bytes_at_most=BYTES_OF_EPISODE_AT_MOST)
        episode = request.query_params.get("episode")
        page = fragment_lists.fragment_page(
            found.pk,
            group_filter,
            limit=page_request.limit,
            after=page_request.after,
            ids=None if episode is None else [row.id for row, _ in search.fragments_of(episode)],
        )
        return answer(
            FragmentList(
                results=[summary(row, page.rewards.get(row.id)) for row in page.rows],
                next=None if page.next is None else page_request.cursor(page.next),
                is_partial=page.is_partial or search.is_cut,
            )
        )


class FragmentView(ApiView):
    """One fragment of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="fragments_get",
        responses={200: FragmentDetail},
        tags=["fragments"],
    )
    def get(self, request: Request, run: str, fragment: int) -> HttpResponse:
        """Get a fragment.

        Its episodes, its arrays by name and shape, and its rewards.
        """
        found = readable_run(run)
        row = fragment_lists.fragment_row(found.pk, fragment)
        content, problem = None, ""
        try:
            content = content_of(fragment_lists.opened(row))
        except (FragmentUnreadable, PayloadMissing) as error:
            problem = str(error)
        version = PolicyVersion.objects.filter(run=found, epoch=row.epoch, step=row.version_max)
        before, after = fragment_lists.beside(found.pk, row)
        return answer(
            FragmentDetail(
                fragment=summary(row, None if content is None else content.reward_sum),
                content=content,
                problem=problem,
                version=version.values_list("pk", flat=True).first(),
                before=before,
                after=after,
            )
        )


class StepsView(ApiView):
    """The steps of a fragment."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="fragments_steps",
        parameters=[
            OpenApiParameter("start", between(0, 1 << 31)),
            OpenApiParameter("count", between(1, MOST_STEPS)),
        ],
        responses={200: StepWindow, **problems(410, 422)},
        tags=["fragments"],
    )
    def get(self, request: Request, run: str, fragment: int) -> HttpResponse:
        """List a fragment's steps.

        Action, reward, value, logprob, episode ends and policy versions.
        """
        start = whole_number(request, "start", default=0, at_least=0, at_most=1 << 31)
        count = whole_number(request, "count", default=512, at_least=1, at_most=MOST_STEPS)
        found = readable_run(run)
        row = fragment_lists.fragment_row(found.pk, fragment)
        return answer(window(fragment_lists.opened(row), start=start or 0, count=count or 512))


def summary(row: FragmentRow, reward_sum: float | None) -> FragmentSummary:
    """Return a row in its API form."""
    return FragmentSummary(**msgspec.structs.asdict(row), reward_sum=reward_sum)


SHOWN: Final = 5


class NewestTrajectories(Struct, frozen=True, kw_only=True):
    """The newest items of a run, newest first; a run has either groups or fragments."""

    groups: list[GroupSummary]
    fragments: list[FragmentSummary]


def newest_part(run_id: int) -> NewestTrajectories | None:
    """Return the newest items, or None if the run no longer exists."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    group_filter = GroupFilter()
    if kind_of(run) is ItemKind.FRAGMENTS:
        page = fragment_lists.fragment_page(run_id, group_filter, limit=SHOWN)
        found = [summary(row, page.rewards.get(row.id)) for row in page.rows]
        return NewestTrajectories(groups=[], fragments=found)
    rows = group_lists.group_page(run_id, group_filter, limit=SHOWN).rows
    rows = group_contents.with_digests(run, rows)
    return NewestTrajectories(groups=summaries(run_id, rows), fragments=[])
