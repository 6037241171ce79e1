"""URLs of the Atropos trajectory API; included at the root and under ``/atropos/<run>/``."""

from typing import Final

from django.urls import path

from buffer.atropos.api import pushes
from buffer.atropos.api import routes as atropos
from buffer.atropos.rules import NAMES

_VIEWS: Final = {
    "": atropos.RootView,
    "register": atropos.RegisterView,
    "register-env": atropos.RegisterEnvView,
    "disconnect-env": atropos.DisconnectEnvView,
    "wandb_info": atropos.WandbInfoView,
    "info": atropos.InfoView,
    "status": atropos.StatusView,
    "status-env": atropos.StatusEnvView,
    "scored_data": pushes.ScoredDataView,
    "scored_data_list": pushes.ScoredDataListView,
    "batch": atropos.BatchView,
    "latest_example": atropos.LatestExampleView,
    "reset_data": atropos.ResetDataView,
}

urlpatterns = [path(name, _VIEWS[name].as_view()) for name in ("", *NAMES)]
