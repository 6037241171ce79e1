"""Route the API of fleets, episodes and metrics."""

from django.urls import path

from rollouts.api import (
    attempts,
    checks,
    deliveries,
    environments,
    lessons,
    logs,
    metrics,
    recordings,
    rules,
    verdicts,
    views,
    workers,
)

urlpatterns = [
    path("environments", environments.KnownEnvironmentsView.as_view()),
    path("environments/one", environments.KnownEnvironmentView.as_view()),
    path("run-verdicts", verdicts.VerdictsView.as_view()),
    path("run-checks", checks.RunChecksView.as_view()),
    path("runs/<slug:run>/weights/deliveries", deliveries.DeliveriesView.as_view()),
    path("runs/<slug:run>/fleet", views.FleetView.as_view()),
    path("runs/<slug:run>/pipeline", views.PipelineView.as_view()),
    path("runs/<slug:run>/fleet/control", views.FleetControlView.as_view()),
    path("runs/<slug:run>/fleet/report", views.FleetReportView.as_view()),
    path("runs/<slug:run>/fleet/attempts", attempts.AttemptsView.as_view()),
    path(
        "runs/<slug:run>/fleet/workers/<small:worker>/restart", workers.WorkerRestartView.as_view()
    ),
    path("runs/<slug:run>/fleet/workers/<small:worker>/cordon", workers.WorkerCordonView.as_view()),
    path(
        "runs/<slug:run>/fleet/workers/<small:worker>/uncordon",
        workers.WorkerUncordonView.as_view(),
    ),
    path("runs/<slug:run>/fleet/workers/<small:worker>/stacks", workers.WorkerStacksView.as_view()),
    path("runs/<slug:run>/fleet/logs", logs.FleetLogsView.as_view()),
    path("runs/<slug:run>/fleet/logs/<uuid:log_request>", logs.FleetLogAnswerView.as_view()),
    path("runs/<slug:run>/recordings", recordings.RecordingsView.as_view()),
    path("runs/<slug:run>/recordings/<uuid:recording>", recordings.RecordingView.as_view()),
    path(
        "runs/<slug:run>/recordings/<uuid:recording>/content",
        recordings.RecordingContentView.as_view(),
    ),
    path("runs/<slug:run>/episodes", views.EpisodesView.as_view()),
    path("runs/<slug:run>/episodes/summary", views.EpisodeSummaryView.as_view()),
    path("runs/<slug:run>/lessons", lessons.LessonsView.as_view()),
    path("runs/<slug:run>/lessons/tasks", lessons.LessonTasksView.as_view()),
    path("runs/<slug:run>/lessons/history", lessons.LessonHistoryView.as_view()),
    path("runs/<slug:run>/lessons/progress", lessons.LessonProgressView.as_view()),
    path("runs/<slug:run>/lessons/<str:lesson>/outcomes", lessons.LessonOutcomesView.as_view()),
    path("runs/<slug:run>/lessons/<str:lesson>/steering", lessons.LessonSteeringView.as_view()),
    path(
        "runs/<slug:run>/lessons/<str:lesson>/micro-evaluations",
        lessons.MicroEvaluationsView.as_view(),
    ),
    path("runs/<slug:run>/evaluations", lessons.EvaluationsView.as_view()),
    path("runs/<slug:run>/evaluations/<uuid:evaluation>", lessons.EvaluationView.as_view()),
    path("runs/<slug:run>/metrics", metrics.MetricsView.as_view()),
    path("runs/<slug:run>/metrics/keys", metrics.MetricKeysView.as_view()),
    path("runs/<slug:run>/metrics/samples", metrics.MetricSamplesView.as_view()),
    path("runs/<slug:run>/metrics/lines", metrics.RunLinesView.as_view()),
    path("runs/<slug:run>/metrics/moment", metrics.MomentView.as_view()),
    path("metrics/lines", metrics.LinesView.as_view()),
    path("alert-rules/preview", rules.RulePreviewView.as_view()),
    path(
        "runs/<slug:run>/evaluations/<uuid:evaluation>/lease",
        lessons.EvaluationLeaseView.as_view(),
    ),
]
