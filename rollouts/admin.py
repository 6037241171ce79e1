"""Show fleets in the admin: to look at, not to change."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from buffer.admin import BoundedPaginator
from rollouts import selectors
from rollouts.core import log_text
from rollouts.models import (
    EnvSlot,
    EpisodeWindow,
    Evaluation,
    Fleet,
    FleetWorker,
    Lesson,
    LessonChange,
    LessonOutcome,
    LogRequest,
    MetricSample,
    Recording,
    WorkerAttempt,
)
from runs.admin import ReadOnlyAdmin, link_to
from runs.models import Run


def as_written(text: str) -> SafeString:
    """Return text of a process in its lines, with what could deceive a reader made visible."""
    style = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    return format_html('<pre style="{}">{}</pre>', style, log_text.visible(text))


def rows_of(models: Iterable[type[Model]], **lookup: Any) -> SafeString:
    """Return links to the lists of rows that belong to one row."""
    [(name, value)] = lookup.items()
    links = [
        format_html(
            '<a href="{}?{}={}">{}</a>',
            reverse(f"admin:rollouts_{model._meta.model_name}_changelist"),
            name,
            value,
            model._meta.verbose_name_plural,
        )
        for model in models
    ]
    return SafeString(SafeString(" · ").join(links))


def rounded(name: str) -> Callable[[Any], str]:
    """Return a column of a list that shows a number to four digits."""

    @admin.display(description=name.replace("_", " "), ordering=name)
    def shown(row: Any) -> str:
        value = getattr(row, name)
        return "-" if value is None else f"{value:,.4g}"

    return shown


class ReadOnly(ReadOnlyAdmin):
    """Rows that fleets and trainers write, found by the name of their run.

    The tables grow with every report: a list takes one page by an index and counts no more rows
    than anyone turns pages for.
    """

    paginator = BoundedPaginator
    search_fields: tuple[str, ...] = ("run__name",)
    search_help_text = "The name of a run, or how it begins"
    run_lookup = "run"
    """From a row to its run."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows of runs whose name begins so; runs are few, their rows are not."""
        if not search_term.strip():
            return queryset, False
        runs = Run.objects.filter(name__istartswith=search_term.strip()).order_by("-id")
        found = list(runs.values_list("pk", flat=True)[:100])
        return queryset.filter(**{f"{self.run_lookup}__in": found}), False


@admin.register(Fleet)
class FleetAdmin(ReadOnly):
    """Fleets, one per run, with links to what belongs to them."""

    list_display = (
        *("run_link", "observed", "observed_at", "attempt", "env_steps_total", "actor_name"),
        "reason",
    )
    list_filter = ("observed", ("run", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("run",)
    ordering = ("-observed_at", "-id")
    readonly_fields = ("belongings",)

    @admin.display(description="belongs to it")
    def belongings(self, fleet: Fleet) -> SafeString:
        """Return links to the workers of the fleet, and to what its run has of it."""
        of_run = (Recording, LogRequest, EpisodeWindow, MetricSample)
        workers = rows_of([FleetWorker, WorkerAttempt], fleet__id__exact=fleet.pk)
        return SafeString(workers + " · " + rows_of(of_run, run__id__exact=fleet.run_id))


@admin.register(FleetWorker)
class FleetWorkerAdmin(ReadOnly):
    """Rollout workers."""

    list_display = (
        *("index", "run_link", "state", "heartbeat_at", "node", rounded("env_steps_per_second")),
        *("active_step", "to_send", "restarts", "reason", "verdict"),
    )
    list_filter = ("state", "fleet__run")
    list_select_related = ("fleet__run",)
    ordering = ("-fleet", "index")
    run_lookup = "fleet__run"
    readonly_fields = ("belongings",)

    @admin.display(description="run", ordering="fleet__run")
    def run_link(self, row: FleetWorker) -> SafeString | str:
        """Return a link to the worker's run."""
        return link_to(row.fleet.run)

    @admin.display(description="belongs to it")
    def belongings(self, worker: FleetWorker) -> SafeString:
        """Return a link to the worker's slots."""
        return rows_of([EnvSlot], worker__id__exact=worker.pk)


@admin.register(WorkerAttempt)
class WorkerAttemptAdmin(ReadOnly):
    """Processes that workers have been, and why they ended."""

    list_display = (
        *("worker", "run_link", "started_at", "ended_at", "node", "pid", "env_steps"),
        *("fragments_sent", "lost_steps", "unsent_fragments", "reason"),
    )
    list_filter = ("fleet__run",)
    list_select_related = ("fleet__run",)
    ordering = ("-pk",)
    run_lookup = "fleet__run"

    @admin.display(description="run", ordering="fleet__run")
    def run_link(self, row: WorkerAttempt) -> SafeString | str:
        """Return a link to the run of the attempt's worker."""
        return link_to(row.fleet.run)


@admin.register(EnvSlot)
class EnvSlotAdmin(ReadOnly):
    """Environments of workers."""

    list_display = (
        *("slot", "worker_link", "run_link", "state", "pid", "episodes", "restarts", "error"),
    )
    list_filter = ("state", "worker__fleet__run")
    list_select_related = ("worker__fleet__run",)
    ordering = ("-worker", "slot")
    run_lookup = "worker__fleet__run"

    @admin.display(description="worker", ordering="worker")
    def worker_link(self, row: EnvSlot) -> SafeString | str:
        """Return a link to the slot's worker."""
        return link_to(row.worker)

    @admin.display(description="run", ordering="worker__fleet__run")
    def run_link(self, row: EnvSlot) -> SafeString | str:
        """Return a link to the slot's run."""
        return link_to(row.worker.fleet.run)


@admin.register(EpisodeWindow)
class EpisodeWindowAdmin(ReadOnly):
    """Windows of ended episodes."""

    list_display = (
        *("at", "run_link", "environment", "worker", "mode", "count", rounded("return_mean")),
        *(rounded("length_mean"), "terminated", "truncated", "aborted", "policy_step"),
    )
    list_filter = ("mode", "run")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(MetricSample)
class MetricSampleAdmin(ReadOnly):
    """Numbers that trainers wrote down."""

    list_display = ("at", "run_link", "name", "step", "value")
    list_filter = ("run",)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Recording)
class RecordingAdmin(ReadOnly):
    """Episodes that somebody asked to see; the film is a link, or its text."""

    list_display = (
        *("requested_at", "run_link", "state", "worker", "slot", rounded("episode_return")),
        *("episode_length", "outcome", "policy_step", "media_type", "size_bytes"),
        *("requested_by", "reason"),
    )
    list_filter = ("state", "outcome", "media_type", ("run", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("run",)
    ordering = ("-requested_at", "id")
    readonly_fields = ("film",)

    @admin.display(description="film")
    def film(self, row: Recording) -> SafeString | str:
        """Return a link to the film, and the beginning of one that is text."""
        if row.state != "ready":
            return "-"
        address = f"/api/runs/{row.run.name}/recordings/{row.pk}/content"
        link = format_html('<a href="{}">{}</a>', address, row.media_type)
        return SafeString(link + as_written(selectors.film_preview(row)))


@admin.register(LogRequest)
class LogRequestAdmin(ReadOnly):
    """Logs that somebody wanted to read, and what their ends were when last read."""

    list_display = (
        *("asked_at", "run_link", "worker", "slot", "answered_at", "lines", "node", "path"),
        "note",
    )
    list_filter = (
        ("answered_at", admin.EmptyFieldListFilter),
        ("run", admin.RelatedOnlyFieldListFilter),
    )
    list_select_related = ("run",)
    ordering = ("-asked_at", "id")
    exclude = ("content", "request")
    readonly_fields = ("text",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogRequest]:
        """Return the rows without their lines, which the page of one row reads."""
        return super().get_queryset(request).defer("content")

    @admin.display(description="what it was")
    def text(self, row: LogRequest) -> SafeString:
        """Return the end of the log."""
        return as_written("\n".join(row.content))


@admin.register(Lesson)
class LessonAdmin(ReadOnly):
    """Lessons of language runs."""

    list_display = (
        *("name", "run_link", "status", "success", "weight", "samples", "examples"),
        *("zero_variance_groups", "errors", "changed_at", "reason"),
    )
    list_filter = ("status", "has_regressed", "run")
    list_select_related = ("run",)
    ordering = ("-run", "position")


@admin.register(LessonChange)
class LessonChangeAdmin(ReadOnly):
    """Moves of lessons, and why."""

    list_display = ("at", "run_link", "lesson", "source", "target", "policy_step", "reason")
    list_filter = ("target", "run")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(LessonOutcome)
class LessonOutcomeAdmin(ReadOnly):
    """What workers told of their tasks, micro-evaluations too."""

    list_display = (
        *("at", "run_link", "lesson", "mode", "counted", "samples", "successes", "reward_mean"),
        *("policy_step", "worker", "error"),
    )
    list_filter = ("mode", "counted", "run")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    """Evaluations of lessons: due, leased and done."""

    list_display = (
        *("created_at", "run_link", "lesson", "round", "state", "due_step", "policy_step"),
        *("worker", "fence", "attempts", "expires_at", "finished_at", "reason"),
    )
    list_filter = ("state", "run")
    list_select_related = ("run",)
    ordering = ("-created_at", "id")
