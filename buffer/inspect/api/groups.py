"""Read-only API view of a group."""

from typing import Any

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.inspect import schemas
from buffer.inspect.queries import group_contents, group_lists
from buffer.inspect.rules.outcome import BatchFacts, GroupFacts, outcome
from buffer.inspect.rules.sample_filter import Flag
from buffer.inspect.schemas import GroupRow
from buffer.items.rules.states import BatchState, DropReason, ItemState
from runs.access.api.permissions import Readers
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run
from runs.lifecycle.rules import PolicyVersion, version_in_force
from web.http.bodies import answer
from web.http.views import ApiView
from web.rules.amounts import finite_or_none


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
        (row,) = group_contents.with_digests([group_lists.group_row(found.pk, group)])
        origin = group_contents.provenance(found, row)
        batch = None if origin.batch is None else _batch(row, origin.batch)
        return answer(
            schemas.GroupDetail(
                group=_summary(row),
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
                facts=msgspec.json.decode(row.facts),
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


def _summary(row: GroupRow) -> schemas.GroupSummary:
    """Return a group in its API form, with its mark."""
    return schemas.GroupSummary(
        **{name: getattr(row, name) for name in schemas.GroupFields.__struct_fields__}
        | {
            name: finite_or_none(getattr(row, name))
            for name in ("score_mean", "score_min", "score_max", "score_std")
        }
        | {
            "scores": [None if score is None else finite_or_none(score) for score in row.scores],
            "environment": row.environment,
            "batch": None if row.batch_id is None else str(row.batch_id),
            "mark": group_contents.marks_of([row.id]).get(row.id),
        }
    )
