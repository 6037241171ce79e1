"""One row of every model that belongs to a run, with its value in URLs."""

from typing import Any, Final
from uuid import UUID

from django.db import models

from buffer.archive.models import ArchiveJob
from buffer.capture.models import CaptureSession
from buffer.followers.models import Follower
from buffer.items.models import Batch, FragmentChunk, TrajectoryGroup
from rollouts.control.models import EpisodeWindow, Fleet, FleetWorker, LogRequest, Recording
from rollouts.curriculum.models import Curriculum, Evaluation, Lesson, LessonOutcome
from rollouts.metrics.models import Annotation
from runs.lifecycle.models import Environment, PolicyVersion, Run, Trainer
from tests.factories import NOON

# Index of the numbered objects of a run; alpha has none with this index.
INDEX: Final = 7
FILLED: "Final[dict[type[models.Field[Any, Any]], Any]]" = {
    models.CharField: "",
    models.TextField: "",
    models.DateTimeField: NOON,
    models.JSONField: {},
    models.FloatField: 0.5,
    models.BooleanField: True,
    models.UUIDField: UUID(int=9),
    models.BinaryField: b"",
}


def _made(model: type[models.Model], **given: Any) -> Any:
    """Insert a row with plain values for the columns that have no default."""
    for field in model._meta.concrete_fields:
        is_needed = not (field.null or field.has_default() or field.primary_key)
        if field.name in given or not is_needed or field.db_default is not models.NOT_PROVIDED:
            continue
        kinds = [value for kind, value in FILLED.items() if isinstance(field, kind)]
        given[field.name] = kinds[0] if kinds else 1
    return model._base_manager.create(**given)


def make_objects(run: Run, *, mark: str) -> dict[str, list[models.Model]]:
    """Return rows of `run` by the URL parameter that identifies them.

    Texts are `mark`, so that a response that contains one of them is detected.
    """
    trainer = _made(Trainer, run=run, uuid=run.pk, identity=mark, name=mark)
    batch = _made(Batch, run=run, trainer=trainer, state="leased", kind="groups", ordinal=INDEX)
    quarantined = _made(Batch, run=run, state="quarantined", kind="groups", ordinal=INDEX + 1)
    _made(Curriculum, run=run)
    fleet = _made(Fleet, run=run)
    # Objects of a worker or a lesson without a URL of their own.
    _made(LogRequest, run=run, kind="stacks", worker=INDEX, note=mark)
    _made(EpisodeWindow, run=run, environment=mark)
    _made(LessonOutcome, run=run, lesson=mark, mode="micro_eval", worker=mark)
    worker = {"fleet": fleet, "index": INDEX, "incarnation": mark, "node": mark}
    return {
        "batch": [batch, quarantined],
        "group": [
            _made(TrajectoryGroup, run=run, state="queued", drop_reason="", producer=mark),
        ],
        "fragment": [
            _made(
                FragmentChunk, run=run, state="queued", drop_reason="", environment=mark, slot=mark
            )
        ],
        "archive": [
            _made(ArchiveJob, run=run, verb="export", state="done", asked_by=mark),
        ],
        "session": [_made(CaptureSession, run=run, name=mark)],
        "follower": [_made(Follower, run=run, name=mark, cursor_written_in=1)],
        "worker": [_made(FleetWorker, state="running", **worker)],
        "log_request": [_made(LogRequest, run=run, note=mark)],
        "recording": [_made(Recording, run=run, state="ready", file=mark, note=mark)],
        "lesson": [_made(Lesson, run=run, name=mark, status="active")],
        "evaluation": [_made(Evaluation, run=run, lesson=mark, reason=mark)],
        "annotation": [_made(Annotation, run=run, text=mark)],
        "env_id": [_made(Environment, run=run, env_id=INDEX, wandb_name=mark)],
        "step": [_made(PolicyVersion, run=run, epoch=1, step=INDEX, file=mark)],
    }


def named_by(parameter: str, row: Any) -> Any:
    """Return the value of a URL parameter for a row."""
    attributes = {
        "session": "name",
        "follower": "name",
        "lesson": "name",
        "worker": "index",
        "log_request": "request",
        "env_id": "env_id",
        "step": "step",
    }
    return getattr(row, attributes.get(parameter, "pk"))


def columns_of(rows: dict[str, list[models.Model]]) -> list[dict[str, Any]]:
    """Return the present contents of rows; deleted rows are missing."""
    results = []
    for each in [row for some in rows.values() for row in some]:
        results.extend(type(each)._base_manager.filter(pk=each.pk).values())
    return results
