"""Read-only API views of groups: lists, facets, details, and prompts of several runs."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.ingest.api import GroupPushView
from buffer.inspect import schemas
from buffer.inspect.queries import group_contents, group_lists
from buffer.inspect.queries.group_statistics import shared_prompts
from buffer.inspect.rules.group_filter import Flag, GroupFilter, ListPosition, parse_filter
from buffer.inspect.rules.outcome import BatchFacts, GroupFacts, outcome
from buffer.inspect.schemas import GroupRow, PromptList
from buffer.items.queries import counts
from buffer.items.rules.ledger import ACCEPTED
from buffer.items.rules.states import BatchState, DropReason, ItemKind, ItemState
from runs.access.api.permissions import Readers, scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run
from runs.lifecycle.rules import PolicyVersion, version_in_force
from web.http.bodies import InvalidBody, answer, whole_number
from web.http.openapi import between, listed, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.amounts import finite_or_none

PAGE_AT_MOST: Final = 200
_MANY: Final = (
    *("env", "lesson", "worker", "state", "reason", "flag"),
    *("label", "mark"),
)
_RANGES: Final = ("version", "step", "score", "length")
FILTERS: Final = [
    *(OpenApiParameter(name, OpenApiTypes.STR, many=True) for name in _MANY),
    *(
        OpenApiParameter(f"{name}_{end}", OpenApiTypes.NUMBER)
        for name in _RANGES
        for end in ("min", "max")
    ),
    *(OpenApiParameter(name, OpenApiTypes.STR) for name in ("batch", "prompt", "q", "sort")),
]


def filter_of(request: Request) -> GroupFilter:
    """Return the group filter of a request's query.

    Raises:
        InvalidFilter: If a parameter is invalid.
    """
    return parse_filter(dict(request.query_params.lists()))


class GroupFacetsView(ApiView):
    """Facet counts of a run's groups."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_facets",
        parameters=FILTERS,
        responses={200: schemas.GroupFacets, **problems(503)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Count trajectory groups by facet.

        The newest groups by environment, lesson, state and so on.
        """
        found = readable_run(run)
        counted = group_lists.facets(found.pk, filter_of(request))
        names = group_contents.environment_names(found.pk)
        words = group_contents.vocabulary(found.pk)
        total = sum(row.items for row in counts(found.pk, ItemKind.GROUPS, state=ACCEPTED))
        return answer(
            schemas.GroupFacets(
                examined=counted.examined,
                matching=counted.matching,
                total=total,
                oldest_at=counted.oldest_at,
                undigested=group_lists.digest_lag(found.pk),
                partly_searchable=group_lists.partly_searchable(found.pk),
                facets={
                    name: [
                        schemas.FacetValue(
                            value="none" if value == "-1" else value,
                            label=_label(name, value, names),
                            groups=groups,
                        )
                        for value, groups in values.items()
                    ]
                    for name, values in counted.values.items()
                }
                | {
                    # Labels and notes are counted in the whole run, without the filter.
                    "label": [
                        schemas.FacetValue(
                            value=str(row.label),
                            label=f"{row.label} {row.name}".rstrip(),
                            groups=row.groups,
                        )
                        for row in words.labels
                        if row.name or row.groups
                    ],
                    "mark": [schemas.FacetValue(value="noted", label="noted", groups=words.noted)]
                    if words.noted
                    else [],
                },
                histograms=counted.histograms,
            )
        )


def _label(facet: str, value: str, names: dict[int, str]) -> str:
    if facet != "env":
        return value.replace("_", " ") if facet in {"flag", "reason"} else value
    return "no environment" if value == "-1" else names.get(int(value), f"environment {value}")


class GroupsView(GroupPushView):
    """The trajectory groups of a run."""

    serves_machines = True

    def get_permissions(self) -> list[BasePermission]:
        return [scoped("env", "worker")() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="groups_list",
        parameters=[
            *FILTERS,
            OpenApiParameter(
                "from_group",
                between(1, (1 << 63) - 1),
                description="Begin the first page next to this group, without it.",
            ),
            OpenApiParameter(
                "backward", OpenApiTypes.BOOL, description="Read in reverse order. Default: false."
            ),
            *page_parameters(default=50, most=PAGE_AT_MOST),
        ],
        responses={200: schemas.GroupList, **problems(503)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List trajectory groups.

        Metadata only; newest first, or by score or length.
        """
        found = readable_run(run)
        group_filter = filter_of(request)
        page_request = page_of(request, ListPosition, default=50, most=PAGE_AT_MOST)
        after = page_request.after
        if not after:
            group = whole_number(
                request, "from_group", default=None, at_least=1, at_most=(1 << 63) - 1
            )
            if group is not None:
                row = group_lists.group_row(found.pk, group)
                after = group_lists.list_position(row, group_filter)
        page = group_lists.group_page(
            found.pk,
            group_filter,
            limit=page_request.limit,
            after=after,
            backward=request.query_params.get("backward", "") in {"1", "true"},
        )
        return answer(
            schemas.GroupList(
                results=summaries(found.pk, group_contents.with_digests(found, page.rows)),
                next=None if page.next is None else page_request.cursor(page.next),
                is_partial=page.is_partial,
            )
        )


class GroupView(ApiView):
    """One group of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_get",
        responses={200: schemas.GroupDetail},
        tags=["groups"],
    )
    def get(self, request: Request, run: str, group: int) -> HttpResponse:
        """Get a trajectory group.

        Metadata, origin and destination.
        """
        found = readable_run(run)
        (row,) = group_contents.with_digests(found, [group_lists.group_row(found.pk, group)])
        (summary,) = summaries(found.pk, [row])
        origin = group_contents.provenance(found, row)
        batch = None if origin.batch is None else _batch(row, origin.batch)
        return answer(
            schemas.GroupDetail(
                group=summary,
                outcome=_outcome(found, row, batch, has_gradient=origin.has_gradient),
                batch=batch,
                version=None
                if origin.version is None
                else schemas.VersionOfGroup(
                    id=origin.version.pk,
                    epoch=origin.version.epoch,
                    step=origin.version.step,
                    published_at=origin.version.published_at,
                    sha256=origin.version.sha256,
                ),
                env_spec=origin.env_spec,
                seed=origin.seed,
                newer=origin.newer,
                older=origin.older,
            )
        )


def _outcome(
    run: Run, row: GroupRow, batch: schemas.BatchOfGroup | None, *, has_gradient: bool | None
) -> str:
    return outcome(
        GroupFacts(
            state=ItemState(row.state),
            drop_reason=DropReason(row.drop_reason) if row.drop_reason else None,
            has_bytes=row.has_bytes,
            sequences=row.sequences,
            version=None if row.policy_step is None else PolicyVersion(row.epoch, row.policy_step),
            has_equal_scores=Flag.ZERO_VARIANCE in row.flags,
            has_gradient=has_gradient,
            batch=None
            if batch is None
            else BatchFacts(
                step=batch.step,
                state=BatchState(batch.state),
                trainer=batch.trainer,
                lease_expiries=batch.lease_expiries,
                staleness=batch.staleness,
            ),
            max_staleness=run.max_staleness,
            current=version_in_force(
                epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
            ),
        )
    )


def _batch(row: GroupRow, batch: Any) -> schemas.BatchOfGroup:
    is_comparable = row.policy_step is not None and row.epoch == batch.epoch
    return schemas.BatchOfGroup(
        id=str(batch.pk),
        step=batch.ordinal,
        state=batch.state,
        trainer=str(batch.trainer.name or batch.trainer.identity) if batch.trainer else "",
        policy_step=batch.policy_step,
        epoch=batch.epoch,
        staleness=batch.policy_step - row.policy_step
        if is_comparable and row.policy_step is not None
        else None,
        leased_at=batch.leased_at,
        lease_expires_at=batch.lease_expires_at,
        lease_expiries=batch.lease_expiries,
        delivered_at=batch.delivered_at,
        settled_at=batch.settled_at,
    )


def summaries(run_id: int, rows: Sequence[GroupRow]) -> list[schemas.GroupSummary]:
    """Return groups of a run in their API form, with their marks."""
    names = group_contents.environment_names(run_id) if rows else {}
    group_marks = group_contents.marks_of([row.id for row in rows])
    return [
        schemas.GroupSummary(
            **{name: getattr(row, name) for name in schemas.GroupFields.__struct_fields__}
            | {
                name: finite_or_none(getattr(row, name))
                for name in ("score_mean", "score_min", "score_max", "score_std")
            }
            | {
                "scores": [
                    None if score is None else finite_or_none(score) for score in row.scores
                ],
                "environment": "" if row.env_id is None else names.get(row.env_id, ""),
                "batch": None if row.batch_id is None else str(row.batch_id),
                "mark": group_marks.get(row.id),
            }
        )
        for row in rows
    ]


RUNS_AT_MOST: Final = 20


class PromptsView(ApiView):
    """Prompts of several runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="prompts_list",
        parameters=[
            OpenApiParameter(
                "runs", listed(20), required=True, description="Names, comma-separated."
            )
        ],
        responses={200: PromptList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List recent prompts of runs.

        Most widely shared first, with the scores of each prompt.
        """
        text = request.query_params.get("runs", "")
        names = list(dict.fromkeys(name for name in text.split(",") if name))
        if not 1 <= len(names) <= RUNS_AT_MOST or "\x00" in text:
            raise InvalidBody("runs", f"must name 1 to {RUNS_AT_MOST} runs")
        runs = {readable_run(name).pk: name for name in names}
        return answer(PromptList(results=shared_prompts(runs), next=None))
