"""URLs of the runs API."""

from django.urls import path, register_converter
from django.urls.converters import IntConverter

from runs.access.api.sessions import (
    AuditCsvView,
    AuditView,
    PasswordView,
    SessionsView,
    SessionView,
)
from runs.alerts.api import (
    AcknowledgeView,
    AlertKindsView,
    AlertRulesView,
    AlertRuleView,
    AlertsView,
    AlertView,
    ResolveView,
    SnoozesView,
    SnoozeView,
    WebhooksView,
    WebhookTestView,
)
from runs.config.api import PresetsView, PresetView
from runs.deployment.api import NoticeView
from runs.lifecycle.api.runs import (
    DeletionPreviewView,
    DeletionsView,
    EnvironmentsView,
    EventsView,
    RunConfigSchemaView,
    RunView,
    status_change_view,
)
from runs.lifecycle.api.steering import (
    EnvironmentView,
    NotesView,
    ResetView,
    TokensView,
    TokenView,
    TrainersView,
)
from runs.lifecycle.rules import RunVerb
from runs.projects.api import ProjectsView, ProjectView
from runs.search.api import (
    FilterValuesView,
    FilterView,
    RunActionsView,
    RunActivityView,
    RunColumnsView,
    RunsCsvView,
    RunsView,
    TagsView,
)
from runs.views.api import ViewsView, ViewView
from runs.weights.api import (
    CurrentWeightsView,
    WeightsCommandsView,
    WeightsFileView,
    WeightsPinView,
    WeightsSyncView,
    WeightsUnpinView,
    WeightsView,
)


class SmallNumber(IntConverter):
    """An integer that fits a 32-bit column."""

    regex = "[0-9]{1,9}"


class LargeNumber(IntConverter):
    """An integer that fits a 64-bit column."""

    regex = "[0-9]{1,18}"


class Step(IntConverter):
    """The step of a policy version, which may be -1."""

    regex = "-1|[0-9]{1,9}"


register_converter(SmallNumber, "small")
register_converter(LargeNumber, "large")
register_converter(Step, "step")

urlpatterns = [
    path("server/notice", NoticeView.as_view()),
    path("session", SessionView.as_view()),
    path("session/password", PasswordView.as_view()),
    path("sessions", SessionsView.as_view()),
    path("audit", AuditView.as_view()),
    path("audit.csv", AuditCsvView.as_view()),
    path("alerts", AlertsView.as_view()),
    path("alerts/<large:alert>", AlertView.as_view()),
    path("alerts/<large:alert>/acknowledge", AcknowledgeView.as_view()),
    path("alerts/<large:alert>/resolve", ResolveView.as_view()),
    path("alerts/kinds", AlertKindsView.as_view()),
    path("alerts/rules", AlertRulesView.as_view()),
    path("alerts/rules/<large:rule>", AlertRuleView.as_view()),
    path("alerts/snoozes", SnoozesView.as_view()),
    path("alerts/snoozes/<large:snooze>", SnoozeView.as_view()),
    path("webhooks", WebhooksView.as_view()),
    path("webhooks/<slug:webhook>/test", WebhookTestView.as_view()),
    path("run-config-schema", RunConfigSchemaView.as_view()),
    path("presets", PresetsView.as_view()),
    path("presets/<slug:preset>", PresetView.as_view()),
    path("views", ViewsView.as_view()),
    path("views/<large:view>", ViewView.as_view()),
    path("projects", ProjectsView.as_view()),
    path("projects/<slug:project>", ProjectView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/<small:token>", TokenView.as_view()),
    path("runs", RunsView.as_view()),
    path("run-filter", FilterView.as_view()),
    path("run-filter/values", FilterValuesView.as_view()),
    path("run-columns", RunColumnsView.as_view()),
    path("runs.csv", RunsCsvView.as_view()),
    path("run-activity", RunActivityView.as_view()),
    path("run-actions", RunActionsView.as_view()),
    path("deletions", DeletionsView.as_view()),
    path("runs/<slug:run>", RunView.as_view()),
    path("runs/<slug:run>/deletion", DeletionPreviewView.as_view()),
    *(path(f"runs/<slug:run>/{verb}", status_change_view(verb).as_view()) for verb in RunVerb),
    path("runs/<slug:run>/tags", TagsView.as_view()),
    path("runs/<slug:run>/notes", NotesView.as_view()),
    path("runs/<slug:run>/events", EventsView.as_view()),
    path("runs/<slug:run>/environments", EnvironmentsView.as_view()),
    path("runs/<slug:run>/environments/<small:env_id>", EnvironmentView.as_view()),
    path("runs/<slug:run>/reset", ResetView.as_view()),
    path("runs/<slug:run>/trainers", TrainersView.as_view()),
    path("runs/<slug:run>/weights", WeightsView.as_view()),
    path("runs/<slug:run>/weights/current", CurrentWeightsView.as_view()),
    path("runs/<slug:run>/weights/commands", WeightsCommandsView.as_view()),
    path("runs/<slug:run>/weights/pin", WeightsPinView.as_view()),
    path("runs/<slug:run>/weights/unpin", WeightsUnpinView.as_view()),
    path("runs/<slug:run>/weights/sync", WeightsSyncView.as_view()),
    path("runs/<slug:run>/weights/<small:epoch>/<step:step>", WeightsFileView.as_view()),
]
