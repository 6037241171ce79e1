"""Lesson rows of a run, and their conversion to strategy inputs."""

from dataclasses import replace

from rollouts.curriculum.models import Curriculum, Lesson
from rollouts.curriculum.queries.curricula import RunCurriculum, first_rows, weigh
from rollouts.curriculum.rules.packing import pack, unpack
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.performance import Progress
from rollouts.lessons.rules.strategy import Change


def begin(run_id: int, curriculum: RunCurriculum) -> Curriculum:
    """Return the run's curriculum, locked; its lessons are created on first use.

    Lock order: the curriculum before any lesson.
    """
    locked = Curriculum.objects.select_for_update(no_key=True).filter(run_id=run_id)
    found = locked.first()
    if found is not None:
        return found
    Curriculum.objects.bulk_create([Curriculum(run_id=run_id)], ignore_conflicts=True)
    made = locked.get()
    # The first of two concurrent calls holds the lock until its lessons exist.
    if not Lesson.objects.filter(run_id=run_id).exists():
        Lesson.objects.bulk_create(first_rows(run_id, curriculum))
    return made


def progress_of(row: Lesson) -> Progress:
    """Return the status and history of a lesson."""
    return Progress(
        status=LessonStatus(row.status),
        training=unpack(row.training),
        evaluation=unpack(row.evaluation),
    )


def save_progress(row: Lesson, progress: Progress, curriculum: RunCurriculum, *, mode: str) -> None:
    """Write the performance of one mode and the values derived from it into a row."""
    if mode == "train":
        row.training = pack(progress.training)
    else:
        row.evaluation = pack(progress.evaluation)
    weigh(row, progress, curriculum)


def moved(row: Lesson, progress: Progress, change: Change, curriculum: RunCurriculum) -> Progress:
    """Write a status change into a row; return the new progress."""
    after = replace(progress, status=change.target)
    row.reason = change.reason
    if change.target is LessonStatus.GRADUATED:
        seen = progress.evaluation.at_last_step()
        row.graduated_successes, row.graduated_samples = seen.successes, seen.samples
    row.has_regressed = False
    weigh(row, after, curriculum)
    return after
