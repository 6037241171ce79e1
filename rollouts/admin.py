"""Import the admin of every capability, and add their models to the deletion of a run."""

from rollouts.control import admin as control
from rollouts.control.models import EpisodeWindow, Fleet, Recording
from rollouts.curriculum import admin as curriculum
from rollouts.curriculum.models import Curriculum, Evaluation, Lesson
from rollouts.diagnosis import admin as diagnosis
from rollouts.environments import admin as environments
from rollouts.metrics import admin as metrics
from rollouts.metrics.models import MetricSample
from runs.lifecycle.admin import RunAdmin

__all__ = ["control", "curriculum", "diagnosis", "environments", "metrics"]

RunAdmin.belonging += [
    Fleet,
    Curriculum,
    Lesson,
    Evaluation,
    Recording,
    EpisodeWindow,
    MetricSample,
]
control.FleetAdmin.belonging += [MetricSample]
