"""Routes of the fleet, episode and metric APIs."""

from django.urls import path

from rollouts.control.api import recordings, workers
from rollouts.control.api.fleets import (
    FleetControlView,
    FleetReportView,
    FleetView,
    MachineCordonView,
    MachineHistoryView,
    WeightSyncsView,
)
from rollouts.control.api.workers import AttemptsView, FleetLogAnswerView, FleetLogsView
from rollouts.curriculum import api as lessons
from rollouts.diagnosis import api as diagnosis
from rollouts.diagnosis.api import PipelineView
from rollouts.environments import api as environments
from rollouts.episodes import api as episodes
from rollouts.episodes.api import EpisodeSummaryView, EpisodesView
from rollouts.metrics.api import charts, metrics
from rollouts.trajectories import api as trajectories

urlpatterns = [
    path("trajectories", trajectories.TrajectoriesView.as_view()),
    path("trajectories/filter", trajectories.TrajectoryFilterView.as_view()),
    path("trajectories/filter/values", trajectories.TrajectoryValuesView.as_view()),
    path("trajectories/columns", trajectories.TrajectoryColumnsView.as_view()),
    path("environments", environments.KnownEnvironmentsView.as_view()),
    path("environments/probes", environments.EnvironmentProbeView.as_view()),
    path("environments/approvals", environments.EnvironmentApprovalView.as_view()),
    path("environments/detail", environments.KnownEnvironmentView.as_view()),
    path("cluster/nodes/<slug:node>/cordon", MachineCordonView.as_view()),
    path("cluster/nodes/<slug:node>/usage", MachineHistoryView.as_view()),
    path("run-diagnoses", diagnosis.DiagnosesView.as_view()),
    path("run-checks", environments.RunChecksView.as_view()),
    path("runs/<slug:run>/weights/syncs", WeightSyncsView.as_view()),
    path("runs/<slug:run>/fleet", FleetView.as_view()),
    path("runs/<slug:run>/pipeline", PipelineView.as_view()),
    path("runs/<slug:run>/fleet/control", FleetControlView.as_view()),
    path("runs/<slug:run>/fleet/report", FleetReportView.as_view()),
    path("runs/<slug:run>/fleet/attempts", AttemptsView.as_view()),
    path(
        "runs/<slug:run>/fleet/workers/<small:worker>/restart", workers.WorkerRestartView.as_view()
    ),
    path("runs/<slug:run>/fleet/workers/<small:worker>/cordon", workers.WorkerCordonView.as_view()),
    path(
        "runs/<slug:run>/fleet/workers/<small:worker>/uncordon",
        workers.WorkerUncordonView.as_view(),
    ),
    path("runs/<slug:run>/fleet/workers/<small:worker>/stacks", workers.WorkerStacksView.as_view()),
    path("runs/<slug:run>/fleet/logs", FleetLogsView.as_view()),
    path("runs/<slug:run>/fleet/logs/<uuid:log_request>", FleetLogAnswerView.as_view()),
    path("runs/<slug:run>/recordings", recordings.RecordingsView.as_view()),
    path("runs/<slug:run>/recordings/<uuid:recording>", recordings.RecordingView.as_view()),
    path(
        "runs/<slug:run>/recordings/<uuid:recording>/content",
        recordings.RecordingContentView.as_view(),
    ),
    path("runs/<slug:run>/episodes", EpisodesView.as_view()),
    path("runs/<slug:run>/episodes/detail", episodes.EpisodeView.as_view()),
    path("runs/<slug:run>/episodes/summary", EpisodeSummaryView.as_view()),
    path("runs/<slug:run>/episodes/distribution", episodes.EpisodeSpreadView.as_view()),
    path("runs/<slug:run>/lessons", lessons.LessonsView.as_view()),
    path("runs/<slug:run>/lessons/tasks", lessons.LessonTasksView.as_view()),
    path("runs/<slug:run>/lessons/history", lessons.LessonHistoryView.as_view()),
    path("runs/<slug:run>/lessons/<str:lesson>/outcomes", lessons.LessonOutcomesView.as_view()),
    path("runs/<slug:run>/lessons/<str:lesson>/steering", lessons.LessonSteeringView.as_view()),
    path(
        "runs/<slug:run>/lessons/<str:lesson>/micro-evaluations",
        lessons.MicroEvaluationsView.as_view(),
    ),
    path("runs/<slug:run>/lessons/<str:lesson>/passes", lessons.LessonPassesView.as_view()),
    path("runs/<slug:run>/lessons/<str:lesson>/problems", lessons.LessonProblemsView.as_view()),
    path("runs/<slug:run>/evaluations", lessons.EvaluationsView.as_view()),
    path("runs/<slug:run>/evaluations/<uuid:evaluation>", lessons.EvaluationView.as_view()),
    path("runs/<slug:run>/metrics", metrics.MetricsView.as_view()),
    path("runs/<slug:run>/metrics/keys", metrics.MetricKeysView.as_view()),
    path("runs/<slug:run>/metrics/names", metrics.MetricNamesView.as_view()),
    path("runs/<slug:run>/metrics/samples", metrics.MetricSamplesView.as_view()),
    path("runs/<slug:run>/metrics/lines", metrics.RunLinesView.as_view()),
    path("runs/<slug:run>/metrics/context", metrics.MetricContextView.as_view()),
    path("runs/<slug:run>/annotations", charts.AnnotationsView.as_view()),
    path("runs/<slug:run>/annotations/<large:annotation>", charts.AnnotationView.as_view()),
    path("metrics/lines", metrics.LinesView.as_view()),
    path(
        "runs/<slug:run>/evaluations/<uuid:evaluation>/lease", lessons.EvaluationLeaseView.as_view()
    ),
]
