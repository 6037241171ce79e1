"""Read-only API views of fragments: details and steps; and the newest items of a run."""

from typing import Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import Struct
from rest_framework.request import Request

from buffer.inspect.queries import fragment_lists, group_lists
from buffer.inspect.queries.samples import SampledRun, fragment_samples, group_samples
from buffer.inspect.rules.fragment_views import (
    MOST_STEPS,
    FragmentUnreadable,
    StepWindow,
    content_of,
    window,
)
from buffer.inspect.rules.sample_filter import SampleFilter, SampleKind
from buffer.inspect.schemas import FragmentDetail, FragmentRow, FragmentSummary, SampleRow
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing
from runs.access.api.permissions import Readers
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.queries import readable_run
from web.http.bodies import answer, whole_number
from web.http.openapi import between, problems
from web.http.views import ApiView


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
    """The newest items of a run, newest first: groups or fragments."""

    samples: list[SampleRow]


def newest_part(run_id: int) -> NewestTrajectories | None:
    """Return the newest items, or None if the run no longer exists."""
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is None:
        return None
    runs = {run_id: SampledRun.of(run)}
    now = timezone.now()
    if kind_of(run) is ItemKind.FRAGMENTS:
        wanted = SampleFilter(kind=SampleKind.FRAGMENT)
        fragments = fragment_lists.fragment_page([run_id], wanted, limit=SHOWN, now=now)
        return NewestTrajectories(samples=fragment_samples(runs, fragments))
    groups = group_lists.group_page([run_id], SampleFilter(), limit=SHOWN, now=now)
    return NewestTrajectories(samples=group_samples(runs, groups.rows))
