"""Admin of lessons and evaluations."""

from django.contrib import admin

from rollouts.curriculum.models import Curriculum, Evaluation, Lesson, LessonChange, LessonOutcome
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(Lesson)
class LessonAdmin(ReadOnlyAdmin):
    """Lessons of language runs."""

    list_display = (
        *("name", "run_link", "status", "success", "weight", "samples", "examples"),
        *("zero_variance_groups", "errors", "changed_at", "reason", "hold", "weight_factor"),
    )
    list_filter = ("status", "hold", "has_regressed", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-run", "position")
    dashboard = "/runs/{run}/curriculum"


@admin.register(LessonChange)
class LessonChangeAdmin(ReadOnlyAdmin):
    """Status changes of lessons, with reasons."""

    list_display = (
        *("at", "run_link", "lesson", "source", "target", "policy_step", "actor", "reason"),
    )
    list_filter = ("target", RUN_FILTER)
    dashboard = "/runs/{run}/curriculum"
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(LessonOutcome)
class LessonOutcomeAdmin(ReadOnlyAdmin):
    """Reported outcomes of tasks, including micro-evaluations."""

    may_grow = True
    dashboard = "/runs/{run}/curriculum"
    list_display = (
        *("at", "run_link", "lesson", "mode", "counted", "samples", "successes", "reward_mean"),
        *("policy_step", "worker", "error"),
    )
    list_filter = ("mode", "counted", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    """Evaluations of lessons: queued, leased and done."""

    list_display = (
        *("created_at", "run_link", "lesson", "round", "state", "due_step", "policy_step"),
        *("worker", "fence", "attempts", "expires_at", "finished_at", "reason"),
    )
    list_filter = ("state", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-created_at", "id")
    dashboard = "/runs/{run}/evaluations"


@admin.register(Curriculum)
class CurriculumAdmin(ReadOnlyAdmin):
    """Curriculum state of language runs."""

    list_display = ("run_link", "tasks", "round", "round_epoch", "round_step", "completed_at")
    list_filter = (("completed_at", admin.EmptyFieldListFilter), RUN_FILTER)
    dashboard = "/runs/{run}/curriculum"
    list_select_related = ("run",)
    ordering = ("-id",)
