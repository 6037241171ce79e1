"""Origin and destination of a group."""

from dataclasses import dataclass
from typing import Any

from buffer.inspect.queries.group_lists import GroupRow
from buffer.items.models import Batch, TrajectoryGroup
from runs.lifecycle.models import Environment, PolicyVersion, Run
from runs.lifecycle.rules import NO_POLICY_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Batch, policy version, environment and neighbours of a group."""

    batch: Batch | None
    version: PolicyVersion | None
    env_spec: str
    seed: int | None
    newer: int | None
    older: int | None


def provenance(run: Run, row: GroupRow) -> Provenance:
    """Return the provenance of a group."""
    batches = Batch.objects.select_related("trainer")
    step = NO_POLICY_STEP if row.policy_step is None else row.policy_step
    versions = PolicyVersion.objects.filter(run=run, epoch=row.epoch, step=step)
    kept = TrajectoryGroup.objects.filter(run=run, segment__isnull=False)
    return Provenance(
        batch=None if row.batch_id is None else batches.filter(pk=row.batch_id).first(),
        version=versions.defer("manifest").first(),
        env_spec=_env_spec(run, row),
        seed=_seed(run.config),
        newer=_first(kept.filter(id__gt=row.id).order_by("id")),
        older=_first(kept.filter(id__lt=row.id).order_by("-id")),
    )


def environment_names(run_id: int) -> dict[int, str]:
    """Return the names of a run's environments by `env_id`."""
    rows = Environment.objects.filter(run_id=run_id)
    return dict(rows.values_list("env_id", "wandb_name"))


def _first(rows: Any) -> int | None:
    found: int | None = rows.values_list("id", flat=True).first()
    return found


def _env_spec(run: Run, row: GroupRow) -> str:
    lessons = (run.config.get("language") or {}).get("lessons") or {}
    lesson = lessons.get(row.lesson)
    if isinstance(lesson, dict):
        return str(lesson.get("spec", ""))
    if row.env_id is None:
        return ""
    specs = Environment.objects.filter(run=run, env_id=row.env_id).values_list("spec", flat=True)
    return specs.first() or ""


def _seed(config: dict[str, Any]) -> int | None:
    seed = config.get("seed")
    return seed if isinstance(seed, int) else None
