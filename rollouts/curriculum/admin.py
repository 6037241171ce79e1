"""Admin of lessons and evaluations."""

from rollouts.curriculum.models import Curriculum, Evaluation, Lesson, LessonChange, LessonOutcome
from web.admin.read_only import RUN_FILTER, is_empty, register_read_only

register_read_only(
    Lesson,
    columns="name run_link status success weight samples examples zero_variance_groups errors "
    "changed_at reason hold weight_factor",
    filters=("status", "hold", "has_regressed", RUN_FILTER),
    ordering=("-run", "position"),
    dashboard="/runs/{run}/curriculum",
)
register_read_only(
    LessonChange,
    columns="at run_link lesson source target policy_step actor reason",
    filters=("target", RUN_FILTER),
    dashboard="/runs/{run}/curriculum",
)
register_read_only(
    LessonOutcome,
    columns="at run_link lesson mode counted samples successes reward_mean policy_step worker "
    "error",
    filters=("mode", "counted", RUN_FILTER),
    dashboard="/runs/{run}/curriculum",
    may_grow=True,
)
register_read_only(
    Evaluation,
    columns="created_at run_link lesson round state due_step policy_step worker fence attempts "
    "expires_at finished_at reason",
    filters=("state", RUN_FILTER),
    ordering=("-created_at", "id"),
    dashboard="/runs/{run}/curriculum",
)
register_read_only(
    Curriculum,
    columns="run_link tasks round round_epoch round_step completed_at",
    filters=(is_empty("completed_at"), RUN_FILTER),
    dashboard="/runs/{run}/curriculum",
)
