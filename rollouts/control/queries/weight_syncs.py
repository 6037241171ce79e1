"""Queries for weight syncs to workers."""

from typing import Final

from django.db.models import Count, Max, Q

from rollouts.control.models import WeightsDelivery
from rollouts.control.schemas.weight_syncs import WeightsProgress, WeightSyncRow
from runs.lifecycle.models import Run
from runs.lifecycle.queries import policy_versions
from runs.weights.queries import acting_step, newest_command

SYNCS_AT_MOST: Final = 5000
_LOOKED_BACK: Final = 3
"""Number of newest versions that may still be in transit to workers."""


def weights_part(run_id: int) -> WeightsProgress | None:
    """Return the sync progress of the newest weights; None if the run was deleted."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    versions = policy_versions(run_id=run_id, limit=_LOOKED_BACK)
    newest = versions[0] if versions else None
    rows = WeightsDelivery.objects.filter(
        fleet__run_id=run_id, epoch=run.epoch, step__in=[one.step for one in versions]
    )
    stages = ("announced", "staged", "active")
    of_newest = Q(step=newest.step if newest else None)
    found = rows.aggregate(
        **{name: Count(f"{name}_at", filter=of_newest) for name in stages},
        **{f"{name}_last": Max(f"{name}_at") for name in stages},
    )
    command = newest_command(run_id)
    reported = [at for name in stages if (at := found[f"{name}_last"]) is not None]
    return WeightsProgress(
        newest=newest,
        acting_step=acting_step(run, command),
        order=command.number if command else 0,
        **{name: found[name] for name in stages},
        reported_at=max(reported, default=None),
    )


def deliveries(
    run_id: int, *, versions: int, after: tuple[int, int, int] | None, limit: int
) -> list[WeightSyncRow]:
    """Return the syncs of the newest `versions` to a run's workers, newest first.

    Args:
        run_id: Id of the run.
        versions: Number of newest versions.
        after: Epoch, step and worker of the last row of the previous page.
        limit: Maximum number of rows.
    """
    of_run = WeightsDelivery.objects.filter(fleet__run_id=run_id)
    newest = list(
        of_run.order_by("-epoch", "-step").values_list("epoch", "step").distinct()[:versions]
    )
    if not newest:
        return []
    epoch, step = newest[-1]
    rows = of_run.filter(epoch__gte=epoch).exclude(epoch=epoch, step__lt=step)
    if after is not None:
        epoch, step, worker = after
        rows = rows.filter(
            Q(epoch__lt=epoch)
            | Q(epoch=epoch, step__lt=step)
            | Q(epoch=epoch, step=step, worker__gt=worker)
        )
    names = WeightSyncRow.__struct_fields__
    ordered = rows.order_by("-epoch", "-step", "worker")[:limit]
    return [WeightSyncRow(**{name: getattr(row, name) for name in names}) for row in ordered]
