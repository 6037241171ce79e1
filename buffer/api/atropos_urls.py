"""Route the Atropos trajectory API; included at the root and under ``/atropos/<run>/``."""

from django.urls import path

from buffer.api import atropos

urlpatterns = [
    path("", atropos.RootView.as_view()),
    path("register", atropos.RegisterView.as_view()),
    path("register-env", atropos.RegisterEnvView.as_view()),
    path("disconnect-env", atropos.DisconnectEnvView.as_view()),
    path("wandb_info", atropos.WandbInfoView.as_view()),
    path("info", atropos.InfoView.as_view()),
    path("status", atropos.StatusView.as_view()),
    path("status-env", atropos.StatusEnvView.as_view()),
    path("scored_data", atropos.ScoredDataView.as_view()),
    path("scored_data_list", atropos.ScoredDataListView.as_view()),
    path("batch", atropos.BatchView.as_view()),
    path("latest_example", atropos.LatestExampleView.as_view()),
    path("reset_data", atropos.ResetDataView.as_view()),
]
