"""Tasks of lessons with demonstrations: built-in tasks and data sets."""

from rollouts.fleet.datasets.dataset_task import DatasetTask
from rollouts.fleet.datasets.rows import DatasetUnusable
from rollouts.tasks.rules.dataset_config import KIND, dataset_name, parse
from rollouts.tasks.rules.task import Task
from rollouts.tasks.rules.task_specs import InvalidTask, make_task
from runs.config.rules.language_config import LessonConfig


def lesson_task(lesson: LessonConfig) -> Task:
    """Return the task of a lesson; a data set is read from this machine's folder.

    Raises:
        InvalidTask: If it does not exist or does not accept the arguments.
    """
    if not lesson.spec.startswith(KIND):
        return make_task(lesson.spec, lesson.kwargs)
    try:
        return DatasetTask(dataset_name(lesson.spec), parse(lesson.kwargs))
    except DatasetUnusable as error:
        raise InvalidTask(f"{lesson.spec}: {error}") from error
